"""The policy with a memory for each session, as somebody who serves with another server would write it.

It is given the path of a `policy.onnx`, runs it on one thread, and checks nothing.
"""

import json
from collections.abc import Sequence

import numpy as np
import onnxruntime


class Policy:
    """Steps of sessions, each with its own memory in this process."""

    def __init__(self, path: str):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        state = json.loads(self.session.get_modelmeta().custom_metadata_map["initial_state"])
        size = self.session.get_outputs()[0].shape[1]
        self.fresh = np.zeros((1, size), np.float32), np.array([state], np.float32)
        self.memories: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def step(self, session: str, observation: Sequence[float], reward: float) -> list[float]:
        """Return the action of a session's next step."""
        action, state = self.memories.get(session, self.fresh)
        inputs = {"observation": [observation], "prev_action": action, "prev_reward": [[reward]], "state_in": state}
        inputs = {name: np.asarray(value, np.float32) for name, value in inputs.items()}
        action, state = self.memories[session] = tuple(self.session.run(["action", "state_out"], inputs))
        return action[0].tolist()
