"""Step an agent with Triton's own HTTP client, as a sequence and without one, and compare.

python examples/triton_sequence.py --agent b1-nmn --steps 100

The client knows nothing of agents: it sends every input that the model's metadata lists with every request. As a
sequence the server keeps the memory; without one each answer's `action` and `state_out` are the next request's
`prev_action` and `state_in`. Needs `pip install tritonclient[http]`.
"""

import argparse
import json

import numpy as np
from tritonclient.http import InferenceServerClient, InferInput, InferResult
from tritonclient.utils import InferenceServerException


def main() -> None:
    """Step both ways and print how far the actions are apart."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="127.0.0.1:8000", help="of the server (default: %(default)s)")
    parser.add_argument("--agent", default="b1-nmn", help="name of a served agent (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=100, help="(default: %(default)s)")
    arguments = parser.parse_args()
    try:
        with InferenceServerClient(arguments.url.removeprefix("http://")) as client:
            report = compare(client, arguments.agent, arguments.steps)
    except (InferenceServerException, OSError) as error:
        raise SystemExit(f"{error} (make serve starts a server)") from error
    print(json.dumps(report, indent=1))


def compare(client: InferenceServerClient, agent: str, steps: int, sequence: int = 1) -> dict:
    """Step an agent in one world as a sequence, and in an equal one statelessly."""
    sizes = {tensor["name"]: tensor["shape"][1] for tensor in client.get_model_metadata(agent)["inputs"]}
    kept = Inputs(sizes)
    own = Inputs(sizes)
    apart = 0.0
    largest = 0.0
    for step in range(steps):
        flags = {"sequence_id": sequence, "sequence_start": step == 0, "sequence_end": step == steps - 1}
        answered = kept.follow(client.infer(agent, kept.tensors(), **flags))
        expected = own.follow(client.infer(agent, own.tensors()))
        apart = max(apart, float(np.abs(answered - expected).max()))
        largest = max(largest, float(np.abs(expected).max()))
    return {"steps": steps, "largest_action": largest, "largest_difference": apart}


class Inputs:
    """Every input of a model by name, one row each: zeros at first, then what follows from the answers.

    Args:
        sizes: numbers of each input.
    """

    def __init__(self, sizes: dict[str, int]):
        self._rng = np.random.default_rng(0)  # the world: observations and rewards do not depend on the actions here
        self._arrays = {name: np.zeros((1, size), np.float32) for name, size in sizes.items()}
        self._draw("observation")

    def tensors(self) -> list[InferInput]:
        """Return what is sent."""
        sent = []
        for name, array in self._arrays.items():
            sent.append(InferInput(name, list(array.shape), "FP32"))
            sent[-1].set_data_from_numpy(array)
        return sent

    def follow(self, result: InferResult) -> np.ndarray:
        """Take over what was answered, and return the action."""
        self._arrays["prev_action"] = result.as_numpy("action")
        self._arrays["state_in"] = result.as_numpy("state_out")
        self._draw("observation")
        self._draw("prev_reward")
        return self._arrays["prev_action"]

    def _draw(self, name: str) -> None:
        self._arrays[name] = self._rng.standard_normal(self._arrays[name].shape, np.float32)


if __name__ == "__main__":
    main()
