"""One step of one session, the way it is taken most often, without the arrays that a batch needs.

Its numbers go by `memoryview` from the session's record into buffers that the graph is bound to, and back: numpy's
fixed costs for a dozen arrays of one row would be as much as the run of the graph.
"""

import functools
import struct
from collections.abc import Sequence
from math import isfinite
from typing import Any

import numpy as np

from nmn_keras.runtime import OnnxAgent
from serve.packets import packet_of
from serve.sessions import layout_of

FLOAT = 4
"""Bytes of a float32."""
NOTHING = bytes(FLOAT)
# Standard formats (=): native ones make infinity of what float32 cannot hold, these an OverflowError.
REWARD = struct.Struct("=f")


class Solo:
    """An agent's step for one row, in a packet whose other rows are zeros."""

    def __init__(self, agent: OnnxAgent):
        self._agent = agent
        self._step = agent.bind(packet_of(agent))
        layout = layout_of(agent)
        self._memory = layout.now.stop * FLOAT
        self._parts = [slice(p.start * FLOAT, p.stop * FLOAT) for p in (layout.action, layout.reward, layout.state)]
        inputs, outputs = self._step.inputs, self._step.outputs
        self._into = [_row(inputs[name]) for name in ("prev_action", "prev_reward", "state_in")]
        self._observation = _row(inputs["observation"])
        self._observations = struct.Struct(f"={agent.observation_size}f")
        self._actions = struct.Struct(f"={agent.action_size}f")
        self._action, self._state = _row(outputs["action"]), _row(outputs["state_out"])
        self._others = [_row(outputs[name]) for name in layout.outputs if name not in ("action", "state_out")]

    def take(
        self,
        record: bytes,
        observation: Sequence[float],
        action: Sequence[float] | None,
        reward: float,
        locked: bool,
        rng: np.random.Generator | None,
    ) -> bytes | None:
        """Return the record after a step of a session of one environment; None if any number is wrong or overflows.

        Args:
            record: of the session.
            observation: O numbers.
            action: A numbers, what was played at the step before; None for what was answered.
            reward: of the step before.
            locked: whether the step starts from the memory that the last one started from.
            rng: None for the deterministic action.
        """
        try:  # a lock does not excuse what is wrong
            played = record[self._parts[0]] if action is None else self._actions.pack(*action)
            start = played + REWARD.pack(reward) + record[self._parts[2]]
        except (struct.error, OverflowError):  # the wrong number of numbers, or too large a one
            return None
        if locked:
            start = record[self._memory : 2 * self._memory]
        return self._run(start, observation, action, reward, rng)

    def _run(
        self, start: bytes, observation: Any, action: Any, reward: float, rng: np.random.Generator | None
    ) -> bytes | None:
        if not (
            isfinite(reward) and all(map(isfinite, observation)) and (action is None or all(map(isfinite, action)))
        ):
            return None
        try:
            self._observations.pack_into(self._observation, 0, *observation)
            for into, part in zip(self._into, self._parts, strict=True):
                into[:] = start[part]
        except (struct.error, OverflowError):
            return None
        self._step.run()
        if not self._step.finite():
            return None
        chosen: Any = self._action
        if rng is not None:
            chosen = self._agent.sample({name: out[:1] for name, out in self._step.outputs.items()}, rng).tobytes()
        return b"".join([chosen, NOTHING, self._state, start, *self._others])


@functools.cache
def solo_of(agent: OnnxAgent) -> Solo:
    """Return the agent's step for one row."""
    return Solo(agent)


def _row(array: np.ndarray) -> memoryview:
    """The bytes of the first row."""
    return array.data.cast("B")[: array.shape[1] * FLOAT]
