"""Small recurrent agents under the ONNX contract, each with the same step in plain numpy.

Equations of one step (x observation, x' previous observation, a' previous action, r' previous
reward, h memory): h <- tanh([x', a', r', h] W); z = max(0, h V); y = clip((x K) (1 + z S) + z B);
mean = y M; log_std = y L - 1; action = clip(scale * mean + offset, low, high).
"""

import hashlib
import json
import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HIDDEN, MAIN, SIGNAL = 5, 4, 3
OUTPUTS = ("action", "action_mean", "action_log_std", "z", "state_out")


@dataclass
class TinyAgent:
    """A recurrent agent with random weights that fulfils the contract."""

    name: str = "tiny"
    observation: int = 1
    action: int = 1
    env_id: str = "nmn_keras/MovingTarget-v0"
    seed: int = 0
    high: float = 20.0
    env_kwargs: dict = field(default_factory=dict)
    weights: dict[str, np.ndarray] = field(init=False)

    def __post_init__(self):
        rng = np.random.default_rng(self.seed)
        shapes = {
            "W": (self.observation + self.action + 1 + HIDDEN, HIDDEN),
            "V": (HIDDEN, SIGNAL),
            "K": (self.observation, MAIN),
            "S": (SIGNAL, MAIN),
            "B": (SIGNAL, MAIN),
            "M": (MAIN, self.action),
            "L": (MAIN, self.action),
        }
        self.weights = {name: (rng.standard_normal(shape) / 2).astype(np.float32) for name, shape in shapes.items()}
        self.weights["scale"] = np.linspace(5.0, 8.0, self.action, dtype=np.float32)
        self.weights["offset"] = np.linspace(0.5, 1.0, self.action, dtype=np.float32)

    @property
    def state(self) -> int:
        return self.observation + HIDDEN

    def step(self, observation, prev_action, prev_reward, state):
        """Return the outputs by name, computed with numpy."""
        w = self.weights
        seen, memory = state[:, : self.observation], state[:, self.observation :]
        memory = np.tanh(np.concatenate([seen, prev_action, prev_reward, memory], axis=1) @ w["W"])
        z = np.maximum(memory @ w["V"], 0)
        y = np.clip(observation @ w["K"] * (1 + z @ w["S"]) + z @ w["B"], -1, 1)
        mean = y @ w["M"]
        action = np.clip(mean * w["scale"] + w["offset"], -self.high, self.high)
        state_out = np.concatenate([observation, memory], axis=1)
        return dict(zip(OUTPUTS, (action, mean, y @ w["L"] - 1, z, state_out), strict=True))

    def metadata(self) -> dict[str, str]:
        """Return `metadata_props`."""
        layout = [
            {"part": "prev_observation", "offset": 0, "size": self.observation},
            {"part": "memory", "offset": self.observation, "size": HIDDEN},
        ]
        values = {
            "env_kwargs": self.env_kwargs,
            "observation_low": [None] * self.observation,
            "observation_high": [5.0] * self.observation,
            "action_low": [None if math.isinf(self.high) else -self.high] * self.action,
            "action_high": [None if math.isinf(self.high) else self.high] * self.action,
            "action_scale": self.weights["scale"].tolist(),
            "action_offset": self.weights["offset"].tolist(),
            "action_period": [None] * self.action,
            "signal_size": SIGNAL,
            "state_layout": layout,
            "initial_state": [0.0] * self.state,
            "scores": {"return": 1.0},
        }
        words = {
            "contract_version": "1",
            "agent": self.name,
            "kind": "nmn",
            "env_id": self.env_id,
            "action_head": "gaussian",
            "training_commit": "0123456",
        }
        return {**words, **{key: json.dumps(value) for key, value in values.items()}}

    def model(self) -> onnx.ModelProto:
        """Return the graph."""
        inputs = {
            "observation": self.observation,
            "prev_action": self.action,
            "prev_reward": 1,
            "state_in": self.state,
        }
        outputs = dict(zip(OUTPUTS, (self.action, self.action, self.action, SIGNAL, self.state), strict=True))
        graph = helper.make_graph(
            _nodes(),
            "step",
            [_tensor(name, size) for name, size in inputs.items()],
            [_tensor(name, size) for name, size in outputs.items()],
            [numpy_helper.from_array(value, name) for name, value in self._constants().items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)
        helper.set_model_props(model, self.metadata())
        return model

    def _constants(self) -> dict[str, np.ndarray]:
        scalars = {"one": 1, "minus_one": -1, "zero": 0, "low": -self.high, "high": self.high}
        return {
            **self.weights,
            **{name: np.asarray(value, np.float32) for name, value in scalars.items()},
            "split": np.asarray([self.observation, HIDDEN], np.int64),
        }

    def onnx(self) -> bytes:
        """Return the file's bytes, after onnx's own check."""
        model = self.model()
        onnx.checker.check_model(model, full_check=True)
        return model.SerializeToString()


def loud_agent() -> TinyAgent:
    """An agent without action bounds, whose action overflows at observations of 1 and beyond."""
    agent = TinyAgent(name="loud", high=math.inf)
    agent.weights["K"][:] = 1
    agent.weights["M"][:] = 5e37
    return agent


def _tensor(name: str, size: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", size])


def _nodes() -> list[onnx.NodeProto]:
    node = helper.make_node
    return [
        node("Split", ["state_in", "split"], ["seen", "memory"], axis=1),
        node("Concat", ["seen", "prev_action", "prev_reward", "memory"], ["met"], axis=1),
        node("MatMul", ["met", "W"], ["met_W"]),
        node("Tanh", ["met_W"], ["memory_out"]),
        node("MatMul", ["memory_out", "V"], ["memory_V"]),
        node("Max", ["memory_V", "zero"], ["z"]),
        node("MatMul", ["z", "S"], ["z_S"]),
        node("Add", ["z_S", "one"], ["gain"]),
        node("MatMul", ["z", "B"], ["bias"]),
        node("MatMul", ["observation", "K"], ["x_K"]),
        node("Mul", ["x_K", "gain"], ["modulated"]),
        node("Add", ["modulated", "bias"], ["biased"]),
        node("Clip", ["biased", "minus_one", "one"], ["y"]),
        node("MatMul", ["y", "M"], ["action_mean"]),
        node("MatMul", ["y", "L"], ["y_L"]),
        node("Add", ["y_L", "minus_one"], ["action_log_std"]),
        node("Mul", ["action_mean", "scale"], ["scaled"]),
        node("Add", ["scaled", "offset"], ["shifted"]),
        node("Clip", ["shifted", "low", "high"], ["action"]),
        node("Concat", ["observation", "memory_out"], ["state_out"], axis=1),
    ]


def write_zoo(directory: Path, *agents: TinyAgent) -> Path:
    """Publish agents in a zoo of their own and return its directory."""
    entries = {}
    for agent in agents:
        content = agent.onnx()
        (directory / agent.name).mkdir(parents=True)
        (directory / agent.name / "policy.onnx").write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        entries[agent.name] = {
            "env_id": agent.env_id,
            "env_kwargs": agent.env_kwargs,
            "kind": "nmn",
            "files": {"policy.onnx": {"sha256": digest, "bytes": len(content)}},
        }
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "index.json").write_text(json.dumps({"version": 1, "agents": entries}))
    return directory
