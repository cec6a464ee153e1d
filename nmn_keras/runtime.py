"""Published agents without Keras: one step of `policy.onnx` on numpy and onnxruntime alone."""

import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from nmn_keras.contract import POLICY_OUTPUTS, read_contract


class InvalidInput(ValueError):
    """Numbers that an agent must not be stepped with.

    Attributes:
        field: the argument at fault (`observation`, `prev_action`, `prev_reward`, `state`), or None
            when no single one is.
        reason: what was wrong with it, what is accepted, what came.
    """

    def __init__(self, field: str | None, reason: str):
        super().__init__(f"`{field}` {reason}" if field else reason)
        self.field = field
        self.reason = reason


class OnnxAgent:
    """A published agent that steps on onnxruntime, with its memory passed in and out.

    The agent itself holds no memory: whoever steps it keeps the state, the action really played and
    the reward received, and passes them back at the next step. A fresh memory is
    `initial_state(n)` with zeros for the previous action and reward.

    ```python
    agent = OnnxAgent("zoo/b1-nmn/policy.onnx")
    state = agent.initial_state(1)
    action, state = agent.act(observation, prev_action, prev_reward, state)
    ```

    Shapes: N parallel episodes, O observation, A action, Z signal, S packed state. One thread: a
    network of this size is faster on the calling thread than in any pool.

    Attributes:
        name: the agent's published name, e.g. `b1-nmn`.
        kind: `nmn`, `rnn`, `film` or `hyper`; `nmn` alone has a signal z.
        env_id, env_kwargs: the gymnasium environment it was trained on and its arguments.
        observation_low, observation_high: float32 (O,), infinite where unbounded.
        action_low, action_high: float32 (A,), infinite where unbounded.
        action_scale, action_offset: float32 (A,); environment action = clip(scale * u + offset)
            for u in network units.
        action_sizes: number of choices of each dimension of a discrete action, which are the whole
            numbers from `action_low`; None where actions are real numbers.
        policy_outputs: names of the outputs that tell of the policy.
        output_sizes: width of every output by name.
        observation_size, action_size, state_size, signal_size: O, A, S and Z (0 for an `rnn`).
        state_layout: the parts of the packed state, `{"part": ..., "offset": ..., "size": ...}`.
        metadata: everything the file says about itself, decoded.
        sha256: of the file's bytes, in hexadecimal.

    Args:
        model: the path of a `policy.onnx`, or its bytes.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is damaged, or does not follow contract version 1.
    """

    def __init__(self, model: str | os.PathLike[str] | bytes):
        source = "the given bytes" if isinstance(model, bytes) else os.fspath(model)
        data = model if isinstance(model, bytes) else Path(model).read_bytes()
        self.sha256 = hashlib.sha256(data).hexdigest()
        self._session = _open_session(data, source)
        contract = read_contract(self._session, source)
        self.metadata = contract.metadata
        self.observation_size = contract.inputs["observation"]
        self.action_size = contract.outputs["action"]
        self.state_size = contract.outputs["state_out"]
        self._inputs, self.output_sizes = contract.inputs, contract.outputs
        self._outputs = list(contract.outputs)
        self._read_metadata()

    def _read_metadata(self) -> None:
        """Turn the metadata into typed attributes."""
        self.name: str = self.metadata["agent"]
        self.kind: str = self.metadata["kind"]
        self.env_id: str = self.metadata["env_id"]
        self.env_kwargs: dict[str, Any] = self.metadata["env_kwargs"]
        self.signal_size: int = self.metadata["signal_size"]
        self.state_layout: list[dict[str, Any]] = self.metadata["state_layout"]
        self.observation_low = _bound(self.metadata["observation_low"], -math.inf)
        self.observation_high = _bound(self.metadata["observation_high"], math.inf)
        self.action_low = _bound(self.metadata["action_low"], -math.inf)
        self.action_high = _bound(self.metadata["action_high"], math.inf)
        self.action_scale = np.asarray(self.metadata["action_scale"], np.float32)
        self.action_offset = np.asarray(self.metadata["action_offset"], np.float32)
        self.action_period = _bound(self.metadata["action_period"], math.inf)
        sizes = self.metadata.get("action_sizes") if self.metadata["action_head"] == "categorical" else None
        self.action_sizes: tuple[int, ...] | None = None if sizes is None else tuple(sizes)
        self.policy_outputs = POLICY_OUTPUTS[self.metadata["action_head"]]
        # A choice is a finite number, whatever it was chosen by.
        self._told = ("state_out", "action" if sizes is None else "logits")
        self._initial_state = np.asarray(self.metadata["initial_state"], np.float32)

    def __repr__(self) -> str:
        return (
            f"OnnxAgent({self.name!r}, observation={self.observation_size}, "
            f"action={self.action_size}, state={self.state_size}, signal={self.signal_size})"
        )

    def initial_state(self, batch_size: int) -> np.ndarray:
        """Return a fresh memory.

        Args:
            batch_size: N, the number of episodes stepped together, at least 1.

        Returns:
            float32 (N, S).
        """
        if batch_size < 1:
            raise ValueError(f"`batch_size` must be at least 1. Received: {batch_size!r}")
        return np.tile(self._initial_state, (batch_size, 1))

    def check_env(self, env: Any) -> None:
        """Raise `ValueError` unless the agent can play an environment. Needs Gymnasium."""
        from nmn_keras import spaces

        bounds = self.action_low, self.action_high
        spaces.describe(env).check_fit(self.observation_size, self.action_size, self.action_sizes, bounds)

    def step(
        self,
        observation: np.ndarray,
        prev_action: np.ndarray,
        prev_reward: np.ndarray,
        state: np.ndarray,
    ) -> dict[str, np.ndarray]:
        """Run the graph once and return every output. The hot path: nothing is checked.

        Args:
            observation: float32 (N, O), environment units.
            prev_action: float32 (N, A), the action really played, environment units.
            prev_reward: float32 (N, 1).
            state: float32 (N, S), the last `state_out`.

        Returns:
            float32 arrays by output name: `action` (N, A), deterministic and in environment units;
            the policy: `action_mean` and `action_log_std` (N, A), network units, or `logits` (N, sum of
            `action_sizes`); `z` (N, Z) for an `nmn`; `state_out` (N, S).
        """
        outputs = self._session.run(
            self._outputs,
            {
                "observation": observation,
                "prev_action": prev_action,
                "prev_reward": prev_reward,
                "state_in": state,
            },
        )
        return dict(zip(self._outputs, outputs, strict=True))

    def bind(self, rows: int) -> "BoundStep":
        """Return the step for a fixed number of rows, with buffers that stay in place.

        Args:
            rows: N, at least 1.
        """
        return BoundStep(self._session, rows, self._inputs, self.output_sizes)

    def act(
        self,
        observation: Any,
        prev_action: Any,
        prev_reward: Any,
        state: Any,
        *,
        rng: np.random.Generator | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Check the inputs, take one step and choose an action.

        Args:
            observation: (N, O), environment units.
            prev_action: (N, A), the action really played, environment units; zeros at the start.
            prev_reward: (N, 1); zeros at the start.
            state: (N, S), from `initial_state` or the last call.
            rng: None for the deterministic action; a generator to sample.

        Returns:
            The action, float32 (N, A), environment units, inside the action space; and the next
            state, float32 (N, S).

        Raises:
            InvalidInput: a shape is wrong, a number is not finite in float32, or the numbers are so
                large that the agent's memory would overflow.
        """
        outputs = self.decide(*self.check(observation, prev_action, prev_reward, state), rng=rng)
        return outputs["action"], outputs["state_out"]

    def decide(
        self,
        observation: np.ndarray,
        prev_action: np.ndarray,
        prev_reward: np.ndarray,
        state: np.ndarray,
        *,
        rng: np.random.Generator | None = None,
    ) -> dict[str, np.ndarray]:
        """Do what `act` does with inputs that `check` returned; every output of `step`, `action` the one chosen.

        Raises:
            InvalidInput: the numbers are so large that the agent's memory would overflow.
        """
        outputs = self.step(observation, prev_action, prev_reward, state)
        if rng is not None:
            outputs["action"] = self.sample(outputs, rng)
        # One overflow would poison the memory for the rest of the episode: refuse the step instead.
        if not all(np.isfinite(outputs[name]).all() for name in self._told):
            raise InvalidInput(
                None,
                "The step overflows: the inputs are finite, but the action or the memory that "
                "follows from them is not. Send numbers of a size met in the environment.",
            )
        return outputs

    def sample(self, outputs: Mapping[str, np.ndarray], rng: np.random.Generator) -> np.ndarray:
        """Draw from the policy, inside the action space.

        Real numbers: u ~ N(mean, exp(log_std)^2) in network units, brought into environment units.
        Choices: the largest of logit plus Gumbel noise in each dimension.

        Args:
            outputs: of `step`; those that tell of the policy (`policy_outputs`) are read.
            rng: where the N x A standard normal, or N x (sum of `action_sizes`) Gumbel, numbers come from.

        Returns:
            float32 (N, A), environment units.
        """
        if self.action_sizes is not None:
            return self._choose(outputs["logits"], rng)
        mean = outputs["action_mean"]
        noise = rng.standard_normal(mean.shape, dtype=np.float32)
        drawn = mean + np.exp(outputs["action_log_std"]) * noise
        action = drawn * self.action_scale + self.action_offset
        periodic = np.isfinite(self.action_period)
        if periodic.any():
            low = np.where(np.isfinite(self.action_low), self.action_low, self.action_offset - self.action_scale)
            wrapped = np.mod(action - low, np.where(periodic, self.action_period, 1.0)) + low
            action = np.where(periodic, wrapped, action)
        return np.clip(action, self.action_low, self.action_high).astype(np.float32)

    def _choose(self, logits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        sizes: Any = self.action_sizes
        scores = logits + rng.gumbel(size=logits.shape).astype(np.float32)
        chosen = [part.argmax(axis=1) for part in np.split(scores, np.cumsum(sizes)[:-1], axis=1)]
        return (np.stack(chosen, axis=1) + self.action_low).astype(np.float32)

    def check(
        self, observation: Any, prev_action: Any, prev_reward: Any, state: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the four inputs as float32 arrays that `step` can take.

        Observations outside the environment's bounds are accepted: the agent is defined there too.

        Raises:
            InvalidInput: a shape is wrong, or a number is not finite in float32.
        """
        checked = _as_rows("observation", observation, self.observation_size, None)
        rows = len(checked)
        return (
            checked,
            _as_rows("prev_action", prev_action, self.action_size, rows),
            _as_rows("prev_reward", prev_reward, 1, rows),
            _as_rows("state", state, self.state_size, rows),
        )

    def evaluate(self, env: Any = None, **kwargs: Any) -> dict[str, Any]:
        """Play test episodes and return their scores, as `nmn_keras.evaluation.evaluate` does.

        Args:
            env: whatever `evaluate` takes; None for the environment that the agent was trained on.
            **kwargs: passed on.
        """
        from nmn_keras.evaluation import evaluate

        if env is None:
            return evaluate(self, self.env_id, **{"env_kwargs": self.env_kwargs, **kwargs})
        return evaluate(self, env, **kwargs)


class BoundStep:
    """An agent's step on buffers of its own: for one row it takes two thirds of the time of `OnnxAgent.step`.

    Not for several threads at once.

    Attributes:
        inputs: `observation` (N, O), `prev_action` (N, A), `prev_reward` (N, 1), `state_in` (N, S): float32, at first
            zero, to be written to before `run`.
        outputs: by name, as of `OnnxAgent.step`: float32, written by `run`.
    """

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        rows: int,
        inputs: Mapping[str, int],
        outputs: Mapping[str, int],
    ):
        self._session = session
        self._binding = session.io_binding()
        self.inputs = {name: np.zeros((rows, size), np.float32) for name, size in inputs.items()}
        self._written = np.zeros(rows * sum(outputs.values()), np.float32)
        self._finite = np.zeros(self._written.shape, bool)
        ends = np.cumsum([rows * size for size in outputs.values()])[:-1]
        parts = zip(outputs.items(), np.split(self._written, ends), strict=True)
        self.outputs = {name: part.reshape(rows, size) for (name, size), part in parts}
        # The values do not own the arrays' memory: both must live as long as the binding.
        self._values = {
            name: onnxruntime.OrtValue.ortvalue_from_numpy(array)
            for name, array in (self.inputs | self.outputs).items()
        }
        for name in inputs:
            self._binding.bind_ortvalue_input(name, self._values[name])
        for name in outputs:
            self._binding.bind_ortvalue_output(name, self._values[name])

    def run(self) -> None:
        """Step from what stands in `inputs` into `outputs`."""
        self._session.run_with_iobinding(self._binding)

    def finite(self) -> bool:
        """Return whether every number that was written is finite."""
        return bool(np.isfinite(self._written, out=self._finite).all())


def _open_session(data: bytes, source: str) -> onnxruntime.InferenceSession:
    """Load a graph for one thread, in which there is nothing to schedule."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 4  # failures come as exceptions; nothing else goes to the terminal
    try:
        return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's exceptions have no base class of their own
        raise ValueError(
            "Cannot load the agent: the file is damaged or is no ONNX model. Accepted is a "
            f"policy.onnx as `nmn export` writes it. Received: {source} ({_first_line(error)})"
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _bound(values: Sequence[float | None], unbounded: float) -> np.ndarray:
    return np.asarray([unbounded if value is None else value for value in values], np.float32)


def _as_rows(field: str, value: Any, size: int, rows: int | None) -> np.ndarray:
    """Return `value` as a finite float32 array (rows, size); any number of rows if that is None."""
    try:
        with np.errstate(over="ignore"):  # what overflows in the cast is refused as not finite
            array = np.asarray(value, np.float32)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(field, f"is no array of numbers. Accepted is {_shape(rows, size)}. {error}") from error
    count = len(array) if array.ndim == 2 else 0
    if not count or array.shape[1] != size or rows not in (None, count):
        raise InvalidInput(field, f"has the wrong shape. Accepted is {_shape(rows, size)}. Received: {array.shape}")
    if not np.isfinite(array).all():
        raise InvalidInput(
            field,
            "has numbers that are not finite as float32. Accepted are magnitudes up to 3.4e38. "
            f"Received: {array[~np.isfinite(array)][0]}",
        )
    return array


def _shape(rows: int | None, size: int) -> str:
    return f"({'N' if rows is None else rows}, {size}), {size} numbers a row"
