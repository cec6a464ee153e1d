"""A vector environment as the agents see it, whichever way it resets itself; needs no Keras."""

from dataclasses import dataclass

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from nmn_keras import scalars, spaces
from nmn_keras.envs import EnvironmentFailed


@dataclass(frozen=True)
class Outcome:
    """What one step of N environments gave."""

    counted: np.ndarray
    """`(N,)`, False where the environment did nothing but reset itself: there was no transition, and of the other
    fields only `observation` means anything."""
    reward: np.ndarray
    """`(N,)`."""
    successor: np.ndarray
    """`(N, O)`, what was observed after the step, before any reset."""
    terminated: np.ndarray
    """`(N,)`, True where the episode ended and nothing follows."""
    ended: np.ndarray
    """`(N,)`, True where the episode ended in any way."""
    observation: np.ndarray
    """`(N, O)`, what is observed now: where an episode ended, the first observation of the next one, unless
    `Stepper.resetting` says that it is still to come."""


class Stepper:
    """Steps a vector environment with rows of numbers, in each of Gymnasium's three ways of beginning episodes anew.

    SAME_STEP: the environment does it in the step that ends an episode. DISABLED: it is done here, by
    `reset(options={"reset_mask": ...})`. NEXT_STEP: the environment does it in the step after, which ignores its
    action; that step is no transition (`Outcome.counted`), and must not be learnt from, logged or remembered.

    Attributes:
        env: the vector environment.
        spaces: its spaces.
        resetting: `(N,)`, True where the next step will do nothing but reset the environment.

    Args:
        env: a vector environment whose metadata has an `autoreset_mode`.

    Raises:
        ValueError: if it has none, or a space is not supported.
    """

    def __init__(self, env: VectorEnv):
        self.env = env
        self.spaces = spaces.describe(env)
        self._mode = autoreset_mode(env)
        self._step = 0
        self.resetting = np.zeros(env.num_envs, bool)

    def reset(self, seed: int) -> np.ndarray:
        """Begin an episode everywhere and return what is observed, `(N, O)`.

        Raises:
            ValueError: if a number is not finite.
            EnvironmentFailed: if the environment raises.
        """
        self._step = 0
        observations, _ = self._ask(self.env.reset, seed=seed)
        self.resetting = np.zeros(self.env.num_envs, bool)
        return self._rows(observations)

    def step(self, actions: np.ndarray) -> Outcome:
        """Play actions `(N, A)`, environment units.

        Raises:
            ValueError: if a number of a transition is not finite, or a reward or a flag not one number.
            EnvironmentFailed: if the environment raises.
        """
        counted = ~self.resetting
        self._step += 1
        following, rewards, terminated, truncated, info = self._ask(self.env.step, self.spaces.actions(actions))
        observation = self._rows(following)
        rewards = np.where(counted, self._ask(scalars.numbers, rewards, len(counted)), 0.0)
        spaces.finite(rewards, "reward", self._step)
        terminated = counted & self._ask(scalars.flags, terminated, len(counted))
        truncated = counted & self._ask(scalars.flags, truncated, len(counted), "truncated")
        ended = terminated | truncated
        successor = observation
        if ended.any() and self._mode is not AutoresetMode.NEXT_STEP:
            successor, observation = self._begin_anew(observation, ended, info)
        self.resetting = ended if self._mode is AutoresetMode.NEXT_STEP else np.zeros_like(ended)
        return Outcome(counted, rewards, successor, terminated, ended, observation)

    def _begin_anew(self, observation, ended, info):
        """Where episodes have ended, what they ended with and what the next ones begin with."""
        column = ended[:, np.newaxis]
        if self._mode is AutoresetMode.DISABLED:
            first, _ = self._ask(self.env.reset, options={"reset_mask": ended.copy()})
            return observation, np.where(column, self._rows(first), observation)
        if "final_obs" not in info:
            raise ValueError(
                "The vector environment resets itself in the step that ends an episode (SAME_STEP), but does not tell "
                f'what was observed last. Accepted is `infos["final_obs"]`, an element for each environment. '
                f"Received: {sorted(info)}"
            )
        successor = observation.copy()
        for i in np.flatnonzero(ended):
            successor[i] = self.spaces.row(info["final_obs"][i])
        return spaces.finite(successor, "final observation", self._step), observation

    def _ask(self, function, *args, **kwargs):
        """Call what speaks to the environments; of an error tell the step and the environment."""
        try:
            return function(*args, **kwargs)
        except scalars.NotOneNumber as error:
            raise ValueError(f"{_place(error, self._step)}: {error}") from error.__cause__
        except Exception as error:
            cause = error.__cause__ if isinstance(error, EnvironmentFailed) and error.__cause__ else error
            failed = EnvironmentFailed(f"{_place(error, self._step)}: {type(cause).__name__}: {cause}")
            failed.step, failed.environment = self._step, getattr(error, "environment", None)
            raise failed from cause

    def _rows(self, observations):
        return spaces.finite(self.spaces.rows(observations, self.env.observation_space), "observation", self._step)


def _place(error, step):
    environment = getattr(error, "environment", None)
    which = "The vector environment" if environment is None else f"Environment {environment}"
    return f"{which} failed at step {step}" if step else f"{which} failed in its reset"


def autoreset_mode(env: VectorEnv) -> AutoresetMode:
    """The way in which a vector environment begins episodes anew.

    Raises:
        ValueError: if its metadata does not tell.
    """
    mode = (env.metadata or {}).get("autoreset_mode")
    if not isinstance(mode, AutoresetMode):
        raise ValueError(
            "The vector environment does not say how it begins episodes anew. Accepted is a member of "
            f'gymnasium.vector.AutoresetMode as its metadata["autoreset_mode"]. Received: {mode!r}'
        )
    return mode
