"""One Gymnasium environment over any dynamics."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import ArrayLike, NDArray

from nmn_keras.envs.checks import (
    RENDER_MODES,
    bounded_array,
    check_names,
    check_settings,
    finite_array,
)
from nmn_keras.envs.dynamics import Bounds, Dynamics, Scene

METADATA: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": 10}

TRACE = 24
"""How many past positions a picture shows."""


def box(bounds: Bounds) -> gymnasium.spaces.Box:
    """Return the float32 space of these bounds."""
    return gymnasium.spaces.Box(np.array(bounds.low, np.float32), np.array(bounds.high, np.float32), dtype=np.float32)


def draw_start(
    dynamics: Dynamics, rng: np.random.Generator, batch: tuple[int, ...], options: dict[str, Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return tasks (*batch, K) and first positions (*batch, P).

    What "task" and "position" of the options fix is drawn all the same, so that later random
    numbers do not depend on the options.

    Raises:
        TypeError: if an option is not made of numbers.
        ValueError: if an option has another shape or is out of range.
    """
    for_task, for_start, _ = dynamics.draws
    task = dynamics.task(rng.random((*batch, for_task)))
    if options.get("task") is not None:
        task = bounded_array(options["task"], dynamics.task_bounds, batch, "task")
    position = dynamics.start(task, rng.random((*batch, for_start)))
    if options.get("position") is not None:
        position = bounded_array(options["position"], dynamics.position_bounds, batch, "position")
    return task, position


def no_trace(dynamics: Dynamics, batch: tuple[int, ...], render_mode: str | None) -> NDArray[np.float64]:
    """Return the trace (*batch, M, P) of an episode that begins: NaN, and M is 0 unless pictures are asked for."""
    return np.full((*batch, TRACE if render_mode else 0, dynamics.position_bounds.size), np.nan)


def extend(trace: NDArray[np.float64], position: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the trace (..., M, P) with one more position (..., P) and without its oldest."""
    if trace.shape[-2] == 0:
        return trace
    return np.concatenate([trace[..., 1:, :], position[..., np.newaxis, :]], axis=-2)


class TaskEnv(gymnasium.Env[Any, Any]):
    """One environment whose hidden task is drawn anew for each episode.

    Subclasses give the dynamics. With one seed it plays exactly what `TaskVectorEnv` of one
    environment plays.

    Args:
        dynamics: the task family.
        max_episode_steps: steps after which an episode is truncated; None leaves that to the
            `TimeLimit` wrapper, which `gymnasium.make` adds.
        render_mode: None or "rgb_array".

    Raises:
        ValueError: if an argument is not accepted.
    """

    metadata = METADATA

    def __init__(
        self,
        dynamics: Dynamics,
        *,
        max_episode_steps: int | None = None,
        render_mode: str | None = None,
    ):
        check_settings(max_episode_steps, render_mode)
        self.dynamics = dynamics
        self.max_episode_steps = max_episode_steps
        self.render_mode = render_mode
        self.observation_space = box(dynamics.observation_bounds)
        self.action_space = box(dynamics.action_bounds)
        self._steps = 0
        self._scene: Scene | None = None

    @property
    def task(self) -> NDArray[np.float64]:
        """The hidden task (K,)."""
        self._last_scene()
        return self._task.copy()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start an episode with a new task.

        Args:
            seed: seeds the generator of all that follows; None goes on with the present one.
            options: "task" (K,) and "position" (P,) replace what would be drawn; where a vector has
                one component a scalar will do.

        Returns:
            The observation (O,) and `{"task": (K,)}`.

        Raises:
            ValueError: if an option is unknown, has another shape or is out of range.
        """
        super().reset(seed=seed)
        options = options or {}
        check_names(options, ("task", "position"))
        self._task, self._position = draw_start(self.dynamics, self.np_random, (), options)
        self._steps = 0
        nothing = np.full(self.dynamics.action_bounds.size, np.nan)
        self._trace = no_trace(self.dynamics, (), self.render_mode)
        self._scene = Scene(self._position, self._task, nothing, np.nan, 0, self._trace)
        return self._observe(), {"task": self._task.copy()}

    def step(self, action: NDArray[np.float32]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Play one action.

        Args:
            action: (A,); outside the action space the dynamics clip it, or take it as periodic.

        Returns:
            Observation (O,), reward, False, whether `max_episode_steps` is reached, and
            `{"task": (K,)}`.

        Raises:
            ValueError: if the action has another shape or is not finite.
            gymnasium.error.ResetNeeded: before the first reset.
        """
        self._last_scene()
        checked = finite_array(action, (self.dynamics.action_bounds.size,), "action")
        draws = self.np_random.random(self.dynamics.draws[2])
        before = self._position
        self._position, rewards = self.dynamics.step(before, self._task, checked, draws)
        reward = float(rewards)
        self._steps += 1
        self._scene = Scene(before, self._task, checked, reward, self._steps, self._trace)
        self._trace = extend(self._trace, before)
        truncated = self.max_episode_steps is not None and self._steps >= self.max_episode_steps
        return self._observe(), reward, False, truncated, {"task": self._task.copy()}

    def render(self) -> NDArray[np.uint8] | None:
        """Return a picture (H, W, 3) of the last step played, or None without a render mode."""
        scene = self._last_scene()
        if self.render_mode is None:
            return None
        from nmn_keras.envs.render import frame  # matplotlib is loaded only by those who look

        return frame(self.dynamics, scene)

    def set_task(self, task: ArrayLike) -> None:
        """Change the task in the middle of an episode; the position stays.

        Args:
            task: (K,), or a scalar where K is 1.

        Raises:
            ValueError: if it has another shape, is out of range or, of two values, none.
            gymnasium.error.ResetNeeded: before the first reset.
        """
        self._last_scene()
        self._task = bounded_array(task, self.dynamics.task_bounds, (), "task")

    def _observe(self) -> NDArray[np.float32]:
        return self.dynamics.observation(self._position, self._task).astype(np.float32)

    def _last_scene(self) -> Scene:
        if self._scene is None:
            raise ResetNeeded("No episode has begun. Call reset() first.")
        return self._scene
