"""What goes wrong in one of several environments, told with its index."""

from collections.abc import Callable
from typing import Any

import gymnasium
from gymnasium.vector import SyncVectorEnv, VectorEnv

from nmn_keras import scalars


class EnvironmentFailed(RuntimeError):
    """An environment raised an exception, which is this one's cause.

    Attributes:
        environment: index of the environment, None where it cannot be told.
        step: the step it raised in, 0 for the reset at the beginning; None where it cannot be told.
    """

    environment: int | None = None
    step: int | None = None


class Guarded(gymnasium.Wrapper):
    """One of several environments: its rewards and flags become plain numbers, its exceptions tell its index.

    Args:
        env: the environment.
        index: which of the several it is.
    """

    def __init__(self, env: gymnasium.Env, index: int):
        super().__init__(env)
        self._index = index

    @property
    def spec(self):  # type: ignore[override]
        """The spec of the environment itself."""
        return self.env.spec

    def reset(self, **kwargs: Any) -> Any:
        """Reset the environment."""
        return self._ask(self.env.reset, **kwargs)

    def step(self, action: Any) -> Any:
        """Play one step."""
        given = self._ask(self.env.step, action)
        return self._ask(_plain, given)

    def _ask(self, function: Callable, *args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except scalars.NotOneNumber as error:
            error.environment = self._index
            raise
        except Exception as error:
            failed = EnvironmentFailed(f"Environment {self._index} raised {type(error).__name__}: {error}")
            failed.environment = self._index
            raise failed from error


def guard(vector: VectorEnv) -> VectorEnv:
    """Guard the environments that a vector environment steps one by one; others stay as they are."""
    if isinstance(vector, SyncVectorEnv):
        vector.envs = [Guarded(env, i) for i, env in enumerate(vector.envs)]
    return vector


def _plain(given: Any) -> Any:
    """What `step` gave, with a reward and flags that are plain numbers."""
    if not isinstance(given, tuple) or len(given) != 5:
        raise ValueError(
            "`step` must give observation, reward, terminated, truncated and info (Gymnasium since 0.26). "
            f"Received: {f'{len(given)} values' if isinstance(given, tuple) else type(given).__name__}"
        )
    observation, reward, terminated, truncated, info = given
    return (
        observation,
        scalars.number(reward),
        scalars.flag(terminated, "terminated"),
        scalars.flag(truncated, "truncated"),
        info,
    )
