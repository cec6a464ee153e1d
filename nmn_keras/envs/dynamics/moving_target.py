"""Benchmark 1: hit a goal of which a biased reading is seen."""

from dataclasses import dataclass
from types import ModuleType

import numpy as np

from nmn_keras.envs.dynamics.base import Array, Bounds


@dataclass(frozen=True)
class MovingTarget:
    """Benchmark 1: hit a goal of which a biased reading is seen.

    The goal is `p = x - alpha`, x being the observed point and alpha the hidden bias, constant over
    the episode (section "Benchmark 1" of the paper: `x_t = p_t + alpha`; its appendix has the
    opposite sign, which gives the same law because that of alpha is symmetric).
    The position kept here is x, not p, so that a change of alpha moves the goal and leaves the
    observation inside its space.
    """

    alpha_max: float = 10.0
    """The task alpha is uniform on [-alpha_max, alpha_max]."""
    observation_max: float = 5.0
    """Observed points are uniform on [-observation_max, observation_max]."""
    action_max: float = 20.0
    """Actions are clipped to [-action_max, action_max]."""
    hit_radius: float = 1.0
    """A hit is an action closer to the goal than this, strictly."""
    hit_reward: float = 10.0
    """Reward of a hit; a miss costs its distance."""

    draws = (1, 1, 1)

    def __post_init__(self) -> None:
        """Check that every goal can be reached.

        Raises:
            ValueError: if alpha_max puts goals outside the actions.
        """
        largest = self.action_max - self.observation_max
        if not 0.0 < self.alpha_max <= largest:
            raise ValueError(
                "alpha_max is not one with which an action reaches every goal. "
                f"Accepted: (0, {largest:g}]. Received: {self.alpha_max!r}"
            )

    @property
    def task_bounds(self) -> Bounds:
        """Limits of alpha."""
        return Bounds((-self.alpha_max,), (self.alpha_max,))

    @property
    def position_bounds(self) -> Bounds:
        """Limits of the observed point x."""
        return Bounds((-self.observation_max,), (self.observation_max,))

    @property
    def observation_bounds(self) -> Bounds:
        """Limits of the observation, which is the position itself."""
        return self.position_bounds

    @property
    def action_bounds(self) -> Bounds:
        """Limits of the action after clipping."""
        return Bounds((-self.action_max,), (self.action_max,))

    def task(self, draws: Array, *, xp: ModuleType = np) -> Array:
        """Return alpha (..., 1), uniform on [-alpha_max, alpha_max], from `draws` (..., 1)."""
        return self.alpha_max * (2.0 * draws - 1.0)

    def start(self, task: Array, draws: Array, *, xp: ModuleType = np) -> Array:
        """Return observed points (..., 1), uniform whatever the task, from `draws` (..., 1)."""
        return self.observation_max * (2.0 * draws - 1.0)

    def observation(self, position: Array, task: Array, *, xp: ModuleType = np) -> Array:
        """Return the observation x (..., 1)."""
        return position

    def goal(self, position: Array, task: Array) -> Array:
        """Return the hidden goal `p = x - alpha` (..., 1)."""
        return position - task

    def step(
        self, position: Array, task: Array, action: Array, draws: Array, *, xp: ModuleType = np
    ) -> tuple[Array, Array]:
        """Play one action.

        Reward `hit_reward` if `|a - p| < hit_radius`, else `-|a - p|`. After a hit x is drawn anew,
        after a miss it stays.

        Args:
            position: observed points x (..., 1).
            task: alpha (..., 1).
            action: actions (..., 1), any real number, clipped here.
            draws: uniform numbers (..., 1), used where there is a hit.
            xp: the array module.

        Returns:
            Next observed points (..., 1) and rewards (...).
        """
        played = xp.clip(action, -self.action_max, self.action_max)
        distance = xp.abs(played - self.goal(position, task))
        hit = distance < self.hit_radius
        reward = xp.where(hit, self.hit_reward, -distance)
        return xp.where(hit, self.start(task, draws, xp=xp), position), reward[..., 0]
