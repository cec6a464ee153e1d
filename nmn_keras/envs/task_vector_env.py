"""N Gymnasium environments over any dynamics, at once in numpy."""

from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from nmn_keras.envs.checks import (
    bounded_array,
    check_names,
    check_num_envs,
    check_settings,
    finite_array,
    reset_mask,
)
from nmn_keras.envs.dynamics import Dynamics, Scene
from nmn_keras.envs.task_env import METADATA, box, draw_start, extend, no_trace

AUTORESET_MODES = (AutoresetMode.SAME_STEP, AutoresetMode.DISABLED)


class TaskVectorEnv(VectorEnv[NDArray[np.float32], Any, NDArray[Any]]):
    """N environments at once, with independent tasks and one random generator.

    Args:
        dynamics: the task family.
        num_envs: N.
        max_episode_steps: steps after which an episode is truncated.
        autoreset_mode: `AutoresetMode.SAME_STEP` (an episode that ends is begun anew in the same
            call, what it ended with is in `infos["final_obs"]` and `infos["final_info"]`) or
            `AutoresetMode.DISABLED` (the caller resets with `options={"reset_mask": ...}`).
        render_mode: None or "rgb_array".

    Raises:
        ValueError: if an argument is not accepted.
    """

    def __init__(
        self,
        dynamics: Dynamics,
        *,
        num_envs: int,
        max_episode_steps: int,
        autoreset_mode: AutoresetMode = AutoresetMode.SAME_STEP,
        render_mode: str | None = None,
    ):
        check_settings(max_episode_steps, render_mode)
        check_num_envs(num_envs)
        if autoreset_mode not in AUTORESET_MODES:
            raise ValueError(
                "Unsupported autoreset_mode. Accepted: "
                f"{', '.join(map(str, AUTORESET_MODES))}. Received: {autoreset_mode!r}"
            )
        self.dynamics = dynamics
        self.num_envs = num_envs
        self.max_episode_steps = max_episode_steps
        self.render_mode = render_mode
        self.autoreset_mode = autoreset_mode
        self.metadata = METADATA | {"autoreset_mode": autoreset_mode}
        self.single_observation_space = box(dynamics.observation_bounds)
        self.single_action_space = box(dynamics.action_bounds)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._action_shape = (num_envs, dynamics.action_bounds.size)
        self._position = np.zeros((num_envs, dynamics.position_bounds.size))
        self._task = np.zeros((num_envs, dynamics.task_bounds.size))
        self._steps = np.zeros(num_envs, np.int64)
        self._trace = no_trace(dynamics, (num_envs,), render_mode)
        self._scene: Scene | None = None

    @property
    def task(self) -> NDArray[np.float64]:
        """The hidden tasks (N, K)."""
        self._last_scene()
        return self._task.copy()

    @property
    def position(self) -> NDArray[np.float64]:
        """Where the next actions find the worlds (N, P)."""
        self._last_scene()
        return self._position.copy()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start episodes with new tasks.

        Args:
            seed: seeds the one generator of all environments; None goes on with the present one.
            options: "task" (K,) or (N, K) and "position" (P,) or (N, P) replace what would be
                drawn (where a vector has one component, () and (N,) will do); "reset_mask", N
                booleans, resets only where True.

        Returns:
            Observations (N, O) and `{"task": (N, K), "_task": (N,) all True}`.

        Raises:
            TypeError: if the mask is not made of booleans.
            ValueError: if an option is unknown, has another shape or is out of range.
        """
        super().reset(seed=seed)
        options = options or {}
        check_names(options, ("task", "position", "reset_mask"))
        mask = reset_mask(options.get("reset_mask"), self.num_envs)
        if self._scene is None and not mask.all():
            raise ResetNeeded("No episode has begun. Call reset() without reset_mask first.")
        self._begin(mask, options)
        return self._observe(), self._info()

    def step(
        self, actions: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict]:
        """Play one action in each environment.

        Args:
            actions: (N, A); outside the action space the dynamics clip them, or take them as periodic.

        Returns:
            Observations (N, O), rewards (N,), terminations (N,) all False, truncations (N,) and
            infos, see `reset`.

        Raises:
            ValueError: if the actions have another shape or are not finite.
            gymnasium.error.ResetNeeded: before the first reset, or without autoreset while an
                episode that has ended has not been reset.
        """
        self._require_running()
        checked = finite_array(actions, self._action_shape, "actions")
        before = self._position
        draws = self.np_random.random((self.num_envs, self.dynamics.draws[2]))
        self._position, rewards = self.dynamics.step(before, self._task, checked, draws)
        self._steps = self._steps + 1
        self._scene = Scene(before, self._task, checked, rewards.copy(), self._steps, self._trace)
        self._trace = extend(self._trace, before)
        truncations = self._steps >= self.max_episode_steps
        final: dict[str, Any] = {}
        if truncations.any() and self.autoreset_mode is AutoresetMode.SAME_STEP:
            final = self._final(truncations)
            self._begin(truncations, {})
        terminations = np.zeros(self.num_envs, np.bool_)
        return self._observe(), rewards, terminations, truncations, self._info() | final

    def set_task(self, task: ArrayLike) -> None:
        """Change the tasks in the middle of the episodes; the positions stay.

        Args:
            task: (K,) or (N, K); where K is 1, () and (N,) too.

        Raises:
            ValueError: if it has another shape, is out of range or, of two values, none.
            gymnasium.error.ResetNeeded: before the first reset.
        """
        self._last_scene()
        self._task = bounded_array(task, self.dynamics.task_bounds, (self.num_envs,), "task")

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """Return a picture (H, W, 3) for each environment, or None without a render mode."""
        scene = self._last_scene()
        if self.render_mode is None:
            return None
        from nmn_keras.envs.render import frame  # matplotlib is loaded only by those who look

        scenes = (Scene(*parts) for parts in zip(*scene, strict=True))
        return tuple(frame(self.dynamics, scene) for scene in scenes)

    def _begin(self, mask: NDArray[np.bool_], options: dict[str, Any]) -> None:
        """Start episodes where `mask`; numbers are drawn for all N, so a mask moves no other."""
        task, position = draw_start(self.dynamics, self.np_random, (self.num_envs,), options)
        column = mask[:, np.newaxis]
        self._task = np.where(column, task, self._task)
        self._position = np.where(column, position, self._position)
        self._steps = np.where(mask, 0, self._steps)
        nothing = np.full(self._action_shape, np.nan)
        last = self._scene or Scene(position, task, nothing, nothing[:, 0], self._steps, self._trace)
        self._trace = np.where(mask[:, np.newaxis, np.newaxis], np.nan, self._trace)
        self._scene = Scene(
            np.where(column, self._position, last.position),
            np.where(column, self._task, last.task),
            np.where(column, np.nan, last.action),
            np.where(mask, np.nan, last.reward),
            self._steps,
            np.where(mask[:, np.newaxis, np.newaxis], np.nan, last.trace),
        )

    def _observe(self) -> NDArray[np.float32]:
        return self.dynamics.observation(self._position, self._task).astype(np.float32)

    def _info(self) -> dict[str, Any]:
        return {"task": self._task.copy(), "_task": np.ones(self.num_envs, np.bool_)}

    def _final(self, ended: NDArray[np.bool_]) -> dict[str, Any]:
        """Return what the episodes that ended leave, in Gymnasium's form."""
        observed = self._observe()
        observations = np.full(self.num_envs, None, dtype=object)
        for index in np.flatnonzero(ended):
            observations[index] = observed[index].copy()
        information = {"task": self._task.copy(), "_task": ended.copy()}
        return {
            "final_obs": observations,
            "_final_obs": ended.copy(),
            "final_info": information,
            "_final_info": ended.copy(),
        }

    def _last_scene(self) -> Scene:
        if self._scene is None:
            raise ResetNeeded("No episode has begun. Call reset() first.")
        return self._scene

    def _require_running(self) -> None:
        self._last_scene()
        if self._steps.max() >= self.max_episode_steps:
            ended = np.flatnonzero(self._steps >= self.max_episode_steps).tolist()
            raise ResetNeeded(
                "Episodes have ended and are not reset. Call reset(options={'reset_mask': ...}). "
                f"Ended: environments {ended}"
            )
