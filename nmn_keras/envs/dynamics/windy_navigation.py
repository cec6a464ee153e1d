"""Benchmark 2: navigate to a target in an unknown wind."""

import math
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from nmn_keras.envs.dynamics import plane
from nmn_keras.envs.dynamics.base import Array, Bounds


@dataclass(frozen=True)
class WindyNavigation:
    """Benchmark 2: navigate to a target whose relative position is seen, in a wind that is not.

    A task is `(a1, a2, a3)`: the centre of the target and the main direction of the wind, an angle in
    radians. Misprints of the paper are corrected: a step costs 2 (caption and appendix), not 0.2
    (text); the second coordinate moves from itself; the first position is drawn like every other;
    actions are half-turns, as in the authors' code and in benchmark 3.
    """

    spawn_exclusion: float = 0.0
    """No agent appears closer to the target's centre than this: 0 in the paper, 0.6 in the authors' code."""
    target_radius: float = 0.4
    """A position is in the target if it is no farther from its centre."""
    move: float = 0.25
    """Length of the agent's own move and of the wind's, each."""
    cone: float = math.pi / 4.0
    """The wind blows uniformly within this angle of its main direction."""
    target_reward: float = 100.0
    """Reward of a step that begins in the target."""
    step_reward: float = -2.0
    """Reward of any other."""

    task_bounds = Bounds((-plane.TARGET_REACH, -plane.TARGET_REACH, -math.pi), (plane.TARGET_REACH,) * 2 + (math.pi,))
    position_bounds = plane.POSITION_BOUNDS
    observation_bounds = Bounds((-plane.REACH - plane.TARGET_REACH,) * 2, (plane.REACH + plane.TARGET_REACH,) * 2)
    action_bounds = plane.DIRECTION_BOUNDS

    def __post_init__(self) -> None:
        """Check the exclusion.

        Raises:
            ValueError: if it leaves no room.
        """
        plane.check_exclusion(self.spawn_exclusion)

    @property
    def draws(self) -> tuple[int, int, int]:
        """How many uniform numbers `task`, `start` and `step` take."""
        spawning = 2 * plane.candidates(self.spawn_exclusion, targets=1)
        return 3, spawning, 1 + spawning

    def task(self, draws: Array, *, xp: ModuleType = np) -> Array:
        """Return tasks (..., 3), uniform on their bounds, from `draws` (..., 3)."""
        centred = 2.0 * draws - 1.0
        return xp.concatenate([plane.TARGET_REACH * centred[..., :2], math.pi * centred[..., 2:]], axis=-1)

    def targets(self, task: Array) -> tuple[Array, ...]:
        """Return the centre (..., 2) of the one target."""
        return (task[..., :2],)

    def start(self, task: Array, draws: Array, *, xp: ModuleType = np) -> Array:
        """Return positions (..., 2) where an agent appears from `draws` (..., 2 C), see `plane.spawn`."""
        return plane.spawn(draws, self.targets(task), self.spawn_exclusion, xp=xp)

    def observation(self, position: Array, task: Array, *, xp: ModuleType = np) -> Array:
        """Return the position of the target's centre relative to the agent's (..., 2), not around the edges."""
        return task[..., :2] - position

    def in_target(self, position: Array, task: Array, *, xp: ModuleType = np) -> Array:
        """Return whether positions are in the target (..., 1)."""
        return plane.distance(position, task[..., :2], xp=xp) <= self.target_radius

    def reward(self, position: Array, task: Array, *, xp: ModuleType = np) -> Array:
        """Return the rewards (...) of steps that begin at these positions."""
        return xp.where(self.in_target(position, task, xp=xp), self.target_reward, self.step_reward)[..., 0]

    def step(
        self, position: Array, task: Array, action: Array, draws: Array, *, xp: ModuleType = np
    ) -> tuple[Array, Array]:
        """Play one action.

        The reward is for where the agent is before the move. In the target it appears elsewhere,
        whatever the action; else it moves by `move (dir(pi a) + dir(a3 + n))`, n uniform within the cone.

        Args:
            position: (..., 2).
            task: (..., 3).
            action: directions (..., 1) in half-turns, any real numbers.
            draws: uniform numbers (..., 1 + 2 C): the wind's, then those of C places to appear.
            xp: the array module.

        Returns:
            Next positions (..., 2) and rewards (...).
        """
        noise = self.cone * (2.0 * draws[..., :1] - 1.0)
        wind = plane.direction((task[..., 2:] + noise) / math.pi, xp=xp)
        moved = plane.wrap(position + self.move * (plane.direction(action, xp=xp) + wind), xp=xp)
        arrived = self.in_target(position, task, xp=xp)
        following = xp.where(arrived, self.start(task, draws[..., 1:], xp=xp), moved)
        return following, self.reward(position, task, xp=xp)
