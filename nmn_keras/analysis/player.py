"""An agent in N episodes at once, whose neuromodulation can be locked."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nmn_keras.runtime import OnnxAgent


class Player:
    """Steps an agent through N episodes and keeps its memory; z can be locked, episode by episode.

    The memory is what a step starts from beside the observation: previous action, previous reward and packed state. z
    follows from it alone. A locked episode starts each step from the memory that its last step started from (before
    the first step: from empty memory), so z stays; unlocked, the memory goes on from there. A session of the server
    does the same.

    Attributes:
        agent: what acts.
        locked: bool (N,), which episodes are locked; to be written to between steps.

    Args:
        agent: an `OnnxAgent`, or anything with `initial_state` and `act`, which can then not be locked.
        episodes: N.
        actions: A, number of components of an action.
        rng: None for the deterministic action; a generator to sample.
    """

    def __init__(self, agent: Any, episodes: int, actions: int, rng: np.random.Generator | None = None):
        self.agent = agent
        self.locked = np.zeros(episodes, bool)
        self._rng = rng
        self._now = (
            np.zeros((episodes, actions), np.float32),
            np.zeros((episodes, 1), np.float32),
            agent.initial_state(episodes),
        )
        self._before = self._now

    def act(self, observation: np.ndarray) -> dict[str, np.ndarray]:
        """Take a step.

        Args:
            observation: (N, O), environment units.

        Returns:
            By name, float32: `action` (N, A), environment units, the one played; `memory` (N, S), the packed state
            after the step; `z` (N, Z) of an `nmn`.
        """
        start = self._now
        if self.locked.any():
            kept = self.locked[:, np.newaxis]
            start = tuple(np.where(kept, old, new) for old, new in zip(self._before, self._now, strict=True))
        outputs = self._decide(observation, start)
        self._before = start
        self._now = (outputs["action"], np.zeros_like(start[1]), outputs["memory"])
        return outputs

    def receive(self, rewards: ArrayLike) -> None:
        """Take the rewards (N,) of the actions that were just chosen."""
        action, _, memory = self._now
        self._now = action, np.asarray(rewards, np.float32)[:, np.newaxis], memory

    def _decide(self, observation, start):
        if not isinstance(self.agent, OnnxAgent):
            action, memory = self.agent.act(observation, *start, rng=self._rng)
            return {"action": action, "memory": memory}
        outputs = self.agent.decide(*self.agent.check(observation, *start), rng=self._rng)
        return {"memory": outputs["state_out"], **{name: outputs[name] for name in ("action", "z") if name in outputs}}
