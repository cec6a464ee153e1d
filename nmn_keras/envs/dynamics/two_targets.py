"""Benchmark 3: find out which of two targets is the good one, and navigate to it."""

from dataclasses import dataclass
from types import ModuleType

import numpy as np

from nmn_keras.envs.dynamics import plane
from nmn_keras.envs.dynamics.base import Array, Bounds


@dataclass(frozen=True)
class TwoTargets:
    """Benchmark 3: navigate to the good one of two targets whose relative positions are seen.

    A task is `(a1, a2, a3, a4, a5)`: the centres `(a1, a2)` and `(a3, a4)` of the targets, and which is
    the good one: the first if `a5 = 1`, the second if `a5 = -1`. The paper prints the rewards as
    `100 a5` and `-50 a5`; its text and the authors' code give 100 and -50, whichever is which.
    """

    spawn_exclusion: float = 0.0
    """No agent appears closer to a target's centre than this: 0 in the paper, 0.6 in the authors' code."""
    target_radius: float = 0.4
    """A position is in a target if it is no farther from its centre."""
    move: float = 0.25
    """Length of a move."""
    good_reward: float = 100.0
    """Reward of a step that begins in the good target."""
    bad_reward: float = -50.0
    """Reward of a step that begins in the bad target."""
    step_reward: float = 0.0
    """Reward of any other."""

    task_bounds = Bounds((-plane.TARGET_REACH,) * 4 + (-1.0,), (plane.TARGET_REACH,) * 4 + (1.0,), two_valued=(4,))
    position_bounds = plane.POSITION_BOUNDS
    observation_bounds = Bounds((-plane.REACH - plane.TARGET_REACH,) * 4, (plane.REACH + plane.TARGET_REACH,) * 4)
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
        spawning = 2 * plane.candidates(self.spawn_exclusion, targets=2)
        return 5, spawning, spawning

    def task(self, draws: Array, *, xp: ModuleType = np) -> Array:
        """Return tasks (..., 5), uniform on their bounds or, a5, on its two values, from `draws` (..., 5)."""
        centres = plane.TARGET_REACH * (2.0 * draws[..., :4] - 1.0)
        one = xp.ones_like(draws[..., 4:])
        return xp.concatenate([centres, xp.where(draws[..., 4:] < 0.5, -one, one)], axis=-1)

    def targets(self, task: Array) -> tuple[Array, ...]:
        """Return the centres (..., 2) of the first and the second target."""
        return task[..., :2], task[..., 2:4]

    def start(self, task: Array, draws: Array, *, xp: ModuleType = np) -> Array:
        """Return positions (..., 2) where an agent appears from `draws` (..., 2 C), see `plane.spawn`."""
        return plane.spawn(draws, self.targets(task), self.spawn_exclusion, xp=xp)

    def observation(self, position: Array, task: Array, *, xp: ModuleType = np) -> Array:
        """Return the positions of both centres relative to the agent's (..., 4), not around the edges."""
        return xp.concatenate([centre - position for centre in self.targets(task)], axis=-1)

    def in_target(self, position: Array, task: Array, *, xp: ModuleType = np) -> Array:
        """Return whether positions are in a target (..., 1)."""
        first, second = (plane.distance(position, centre, xp=xp) for centre in self.targets(task))
        return xp.minimum(first, second) <= self.target_radius

    def reward(self, position: Array, task: Array, *, xp: ModuleType = np) -> Array:
        """Return the rewards (...) of steps that begin at these positions; in both targets the nearer centre counts."""
        first, second = (plane.distance(position, centre, xp=xp) for centre in self.targets(task))
        good = xp.equal(first <= second, task[..., 4:] > 0.0)
        of_target = xp.where(good, self.good_reward, self.bad_reward)
        return xp.where(xp.minimum(first, second) <= self.target_radius, of_target, self.step_reward)[..., 0]

    def step(
        self, position: Array, task: Array, action: Array, draws: Array, *, xp: ModuleType = np
    ) -> tuple[Array, Array]:
        """Play one action.

        The reward is for where the agent is before the move. In a target it appears elsewhere,
        whatever the action; else it moves by `move dir(pi a)`.

        Args:
            position: (..., 2).
            task: (..., 5).
            action: directions (..., 1) in half-turns, any real numbers.
            draws: uniform numbers (..., 2 C), those of C places to appear.
            xp: the array module.

        Returns:
            Next positions (..., 2) and rewards (...).
        """
        moved = plane.wrap(position + self.move * plane.direction(action, xp=xp), xp=xp)
        arrived = self.in_target(position, task, xp=xp)
        following = xp.where(arrived, self.start(task, draws, xp=xp), moved)
        return following, self.reward(position, task, xp=xp)
