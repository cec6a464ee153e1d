"""Trials: several episodes of one task as one episode, so that memory outlives each of them."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Space, flatten, flatten_space
from numpy.typing import NDArray

from nmn_keras import scalars


class Trial(gymnasium.Env[NDArray[np.float32], Any]):
    """K episodes of one task, played as one.

    An agent's memory lasts for its episode. Under a trial it lasts for all K, so that the agent can find out in the
    first what helps in the others: RL^2 (Duan et al. 2016; Wang et al. 2016). To whoever trains, evaluates, exports or
    serves the agent a trial is an environment like another.

    - Observation: the inner one, flattened as `gymnasium.spaces.flatten` does it, then 1 where an inner episode begins,
      else 0.
    - Action, reward: the inner ones.
    - End: with the K-th inner episode, terminated or truncated as that is. Where another one ends, the inner
      environment is reset in the same step, which gives the first observation of the next and is no end of the trial.
    - Task: where `reset` tells it as `info["task"]`, later resets of the trial ask for it again by
      `options={"task": ...}`; nothing else is carried over, least of all random numbers. An environment that does not
      tell it has to keep its task itself.
    - `info` of `step`: the inner one, with `episode_ended`, and where it is True `final_info`, as vector environments
      give it.

    No `gymnasium.Wrapper`: what Gymnasium makes by the id `nmn_keras/Trial-v0` can be made again by its spec.

    Args:
        env: the inner environment, its time limit included.
        episodes: K, at least 1.

    Raises:
        ValueError: if K is not positive, or the inner observation has no fixed length.
    """

    def __init__(self, env: gymnasium.Env, episodes: int):
        if isinstance(episodes, bool) or not isinstance(episodes, int | np.integer) or episodes < 1:
            raise ValueError(f"`episodes` of a trial must be an integer >= 1. Received: episodes={episodes!r}")
        self.env = env
        self.episodes = int(episodes)
        self.metadata, self.render_mode = env.metadata, env.render_mode
        self.observation_space: Any = _with_flag(env.observation_space)
        self.action_space = env.action_space
        self._options: dict[str, Any] = {}
        self._ended = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin a trial: another task, unless the options name one.

        Args:
            seed: of the inner environment.
            options: of the inner environment, in each of the trial's resets.
        """
        super().reset(seed=seed)
        observation, info = self.env.reset(seed=seed, options=options)
        self._options, self._ended = dict(options or {}), 0
        if "task" in info:
            self._options["task"] = info["task"]
        return self._observe(observation, True), info

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Play one inner step."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        reward = scalars.number(reward)
        terminated, truncated = scalars.flag(terminated), scalars.flag(truncated, "truncated")
        ended = terminated or truncated
        self._ended += ended
        if not ended or self._ended >= self.episodes:
            told = {**info, "episode_ended": ended}
            return self._observe(observation, False), reward, terminated, truncated, told
        observation, first = self.env.reset(options=dict(self._options) or None)
        return (
            self._observe(observation, True),
            reward,
            False,
            False,
            {**first, "episode_ended": True, "final_info": info},
        )

    def render(self) -> Any:
        """Return the inner environment's picture."""
        return self.env.render()

    def close(self) -> None:
        """Close the inner environment."""
        self.env.close()

    def _observe(self, observation: Any, begins: bool) -> NDArray[np.float32]:
        flat: Any = flatten(self.env.observation_space, observation)
        return np.append(np.ravel(flat), float(begins)).astype(np.float32)


def make_trial(env: Any, episodes: int, env_kwargs: dict[str, Any] | None = None, **settings: Any) -> Trial:
    """Make a trial by names alone; the entry point of `nmn_keras/Trial-v0`.

    Args:
        env: what `nmn_keras.envs.make` takes, for an id a short name or a Gymnasium id.
        episodes: K.
        env_kwargs: for the inner environment.
        **settings: further ones of the inner environment, such as `render_mode`.
    """
    from nmn_keras import envs  # which registers this function

    return Trial(envs.make(env, **{**(env_kwargs or {}), **settings}), episodes)


def _with_flag(space: Space) -> Box:
    flat = flatten_space(space)
    if not isinstance(flat, Box):
        raise ValueError(
            "The observation of a trial is not supported. Supported: spaces that gymnasium.spaces.flatten_space makes "
            f"a Box of (Box, Discrete, MultiBinary, Dict, Tuple ...). Received: {space}"
        )
    with np.errstate(over="ignore"):  # bounds beyond float32 are as good as none
        low, high = (np.asarray(bound, np.float32).ravel() for bound in (flat.low, flat.high))
    return Box(np.append(low, np.float32(0)), np.append(high, np.float32(1)), dtype=np.float32)
