"""What every benchmark's dynamics have: bounds, scenes and the protocol."""

from types import ModuleType
from typing import Any, NamedTuple, Protocol

import numpy as np

Array = Any
"""An array of the module named by `xp`."""


class Bounds(NamedTuple):
    """Closed limits of a vector quantity, one number per component."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    two_valued: tuple[int, ...] = ()
    """Components that take one of their two limits and nothing between."""

    @property
    def size(self) -> int:
        """Number of components."""
        return len(self.low)


class Scene(NamedTuple):
    """One step as a picture needs it: what was, what was played, what came of it.

    Before the first step of an episode `action` and `reward` are NaN and `step` is 0.
    """

    position: Array
    """Where the action found the world (..., P)."""
    task: Array
    """The hidden task (..., K)."""
    action: Array
    """The action (..., A)."""
    reward: Array
    """Its reward (...)."""
    step: Array
    """Steps played in this episode (...)."""
    trace: Array
    """Where the last actions before it found the world, newest last (..., M, P); NaN before the episode, M is 0 where
    nothing is drawn."""


class Dynamics(Protocol):
    """What an environment needs to know about its task family.

    A `task` (..., K) is fixed during an episode, a `position` (..., P) is what changes.
    """

    @property
    def task_bounds(self) -> Bounds:
        """Limits of a task, K components."""

    @property
    def position_bounds(self) -> Bounds:
        """Limits of a position, P components."""

    @property
    def observation_bounds(self) -> Bounds:
        """Limits of an observation, O components."""

    @property
    def action_bounds(self) -> Bounds:
        """Limits of an action, A components."""

    @property
    def draws(self) -> tuple[int, int, int]:
        """How many uniform numbers `task`, `start` and `step` take."""

    def task(self, draws: Array, *, xp: ModuleType = np) -> Array:
        """Return tasks (..., K) drawn from the family."""

    def start(self, task: Array, draws: Array, *, xp: ModuleType = np) -> Array:
        """Return first positions (..., P)."""

    def observation(self, position: Array, task: Array, *, xp: ModuleType = np) -> Array:
        """Return observations (..., O)."""

    def step(
        self, position: Array, task: Array, action: Array, draws: Array, *, xp: ModuleType = np
    ) -> tuple[Array, Array]:
        """Return the next positions (..., P) and the rewards (...)."""
