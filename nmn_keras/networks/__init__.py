"""Networks: an `Architecture` becomes a one-step model and a sequence call over the same weights.

Each kind is a file. All of them read the observation `x_t` and what came back from the last step; the state h of
recurrent cells is their memory.

| kind | the cells see | what acts |
|---|---|---|
| `NMN` | `x_{t-1}, a_{t-1}, r_{t-1}` | a main network fed `x_t`, gain and bias of each neuron from a signal z of h |
| `RNN` | `x_t, a_{t-1}, r_{t-1}` | an MLP fed h |
| `FiLM` | `x_t, a_{t-1}, r_{t-1}` | a main network fed `x_t`, gain and bias of each neuron from h itself |
| `Hyper` | `x_t, a_{t-1}, r_{t-1}` | a main network fed `x_t`, all weights from an embedding of h |

Everything an agent remembers is one packed vector `state (N, S)`, zeros before the first step.
"""

import numpy as np

from nmn_keras.architecture import Architecture
from nmn_keras.networks.film import FiLM
from nmn_keras.networks.hyper import Hyper
from nmn_keras.networks.nmn import NMN
from nmn_keras.networks.recurrent import RecurrentNetwork
from nmn_keras.networks.rnn import RNN

__all__ = ["NMN", "RNN", "FiLM", "Hyper", "RecurrentNetwork", "build_network", "count_parameters"]

NETWORKS: dict[str, type[RecurrentNetwork]] = {"nmn": NMN, "rnn": RNN, "film": FiLM, "hyper": Hyper}


def build_network(architecture: Architecture, output_units: int, seed: int = 0, **kwargs):
    """The network of the architecture's kind with fresh weights."""
    return NETWORKS[architecture.kind](architecture, output_units, seed, **kwargs)


def count_parameters(architecture: Architecture) -> dict[str, int]:
    """Trainable parameters of actor and critic: `{"actor": n, "critic": n}`."""
    outputs = {"actor": architecture.policy_units, "critic": 1}
    networks = {role: build_network(architecture, n) for role, n in outputs.items()}
    return {role: sum(w.size for w in map(np.asarray, n.trainable_variables)) for role, n in networks.items()}
