"""Networks: an `Architecture` becomes a one-step model and a sequence call over the same weights.

Both kinds of network read the observation `x_t` and what came back from the last step. In an NMN a GRU modulator fed
`[x_{t-1}, a_{t-1}, r_{t-1}]` gives a signal z that modulates every layer of a main network fed `x_t` alone; the RNN
baseline feeds `[x_t, a_{t-1}, r_{t-1}]` to the GRUs and then a plain MLP. Vecoven et al. 2020, figures 2 and 3.

Everything an agent remembers is one packed vector `state (N, S)`, zeros before the first step.
"""

import keras
import numpy as np
from keras import ops

from nmn_keras.architecture import Architecture
from nmn_keras.layers import ModulatorGRUCell, NMNDense, get_activation


class RecurrentNetwork(keras.Model):
    """One-step model and sequence call over the same weights; base of `NMN` and `RNN`.

    `call` is one step, `(observation (N, O), prev_action (N, A), prev_reward (N, 1), state (N, S))` to
    `(output (N, output_units), state (N, S))`. `sequence` is the same over a time-major sequence.

    Args:
        architecture: the `Architecture`.
        output_units: length of the linear output.
        seed: integer from which all initial weights follow, the same on every backend.
    """

    def __init__(self, architecture: Architecture, output_units: int, seed: int = 0, **kwargs):
        super().__init__(**kwargs)
        self.architecture = architecture
        self.output_units = output_units
        self._generator = np.random.default_rng(seed)
        self.cells = [
            ModulatorGRUCell(units, self._initializer(), self._initializer(), name=f"modulator_gru_{i}")
            for i, units in enumerate(architecture.gru_units)
        ]
        self._create_readout()
        self._build_weights()

    def _initializer(self):
        """Truncated normal with deviation 0.1 (the authors' code), drawn by numpy.

        Keras's own initialisers draw other numbers on each backend from one seed.
        """

        def draw(shape, dtype=None):
            normal = self._generator.normal(size=shape)
            while (outside := np.abs(normal) > 2.0).any():
                normal[outside] = self._generator.normal(size=int(outside.sum()))
            return ops.convert_to_tensor(0.1 * normal, dtype=dtype)

        return draw

    def _build_weights(self):
        a = self.architecture
        sizes = (a.observation_size, a.action_size, 1, a.state_size)
        self(*(np.zeros((1, size), "float32") for size in sizes))

    def call(self, observation, prev_action, prev_reward, state):
        """One step; see the class docstring."""
        output, _, state = self.step(observation, prev_action, prev_reward, state)
        return output, state

    def step(self, observation, prev_action, prev_reward, state):
        """One step that also gives the signal: `(output, z (N, k) or None, state)`."""
        previous, hidden = self._unpack(state)
        seen = self.architecture.see(observation)
        y = self._feedback(seen, previous, prev_action, prev_reward)
        advanced = []
        for cell, h in zip(self.cells, hidden, strict=True):
            y, (h,) = cell(y, [h])
            advanced.append(h)
        output, signal = self._readout(seen, y)
        return output, signal, self._pack(seen, advanced)

    def sequence(self, observation, prev_action, prev_reward, state, keep):
        """Run over a time-major sequence; equals iterating `step`.

        Args:
            observation: `(T, N, O)`.
            prev_action: `(T, N, A)`, environment units, zero where an episode begins.
            prev_reward: `(T, N, 1)`, zero where an episode begins.
            state: `(N, S)`, the packed state before the first step.
            keep: `(T, N, 1)`, 0 where a new episode begins (memory is zeroed before that step), else 1.

        Returns:
            output `(T, N, output_units)` and the packed states after each step `(T, N, S)`.
        """
        first, hidden = self._unpack(state)
        seen = self.architecture.see(observation)
        previous = None
        if first is not None:
            previous = ops.multiply(ops.concatenate([ops.expand_dims(first, 0), seen[:-1]], 0), keep)
        y = self._feedback(seen, previous, prev_action, prev_reward)
        states = []
        for cell, h in zip(self.cells, hidden, strict=True):
            y = cell.sequence(y, h, keep)
            states.append(y)
        output, _ = self._readout(seen, y)
        return output, self._pack(seen, states)

    def _unpack(self, state):
        """Packed state to (previous observation or None, list of GRU states)."""
        parts, offset = [], 0
        for _, size in self.architecture.state_layout:
            parts.append(state[..., offset : offset + size])
            offset += size
        return (parts[0], parts[1:]) if self.architecture.kind == "nmn" else (None, parts)

    def _feedback(self, seen, previous, prev_action, prev_reward):
        """The GRUs' input: observation of the network's kind, last action and reward, scaled."""
        a = self.architecture
        seen = seen if previous is None else previous
        played = a.head.feedback(prev_action, a.action_period)
        scaled = [_scale(played, a.feedback_scale), _scale(prev_reward, a.reward_scale)]
        return ops.concatenate([seen, *scaled], axis=-1)


def _scale(x, factor):
    """`x * factor`, without a node in the exported graph where there is nothing to do."""
    return x if factor == 1.0 else x * factor


class NMN(RecurrentNetwork):
    """The neuromodulated network (Vecoven et al. 2020, figure 3)."""

    def _create_readout(self):
        a = self.architecture
        self.signal = keras.layers.Dense(
            a.signal_units,
            activation=get_activation(a.signal_activation),
            kernel_initializer=self._initializer(),
            name="signal",
        )
        units = (*a.hidden_units, self.output_units)
        activations = (*(get_activation(a.activation),) * len(a.hidden_units), None)
        self.main = [
            NMNDense(
                n,
                activation,
                kernel_initializer=self._initializer(),
                scale_initializer=self._initializer(),
                shift_initializer=self._initializer(),
                name=f"main_{i}",
            )
            for i, (n, activation) in enumerate(zip(units, activations, strict=True))
        ]

    def _readout(self, seen, context):
        z = self.signal(context)
        y = seen
        for layer in self.main:
            y = layer(y, z)
        return y, z

    def _pack(self, seen, hidden):
        return ops.concatenate([seen, *hidden], axis=-1)


class RNN(RecurrentNetwork):
    """The recurrent baseline (Vecoven et al. 2020, figure 2)."""

    def _create_readout(self):
        a = self.architecture
        units = (*a.hidden_units, self.output_units)
        activations = (*(get_activation(a.activation),) * len(a.hidden_units), None)
        self.main = [
            keras.layers.Dense(n, activation, kernel_initializer=self._initializer(), name=f"main_{i}")
            for i, (n, activation) in enumerate(zip(units, activations, strict=True))
        ]

    def _readout(self, seen, context):
        y = context
        for layer in self.main:
            y = layer(y)
        return y, None

    def _pack(self, seen, hidden):
        return ops.concatenate(hidden, axis=-1) if len(hidden) > 1 else hidden[0]


def build_network(architecture: Architecture, output_units: int, seed: int = 0, **kwargs):
    """The network of the architecture's kind with fresh weights."""
    network = {"nmn": NMN, "rnn": RNN}[architecture.kind]
    return network(architecture, output_units, seed, **kwargs)


def count_parameters(architecture: Architecture) -> dict[str, int]:
    """Trainable parameters of actor and critic: `{"actor": n, "critic": n}`."""
    outputs = {"actor": architecture.policy_units, "critic": 1}
    return {role: build_network(architecture, n).count_params() for role, n in outputs.items()}
