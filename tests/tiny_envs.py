"""Small Gymnasium environments that do what benchmarks never do: end early, mix bounds, give bad numbers."""

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple


class Patchwork(gymnasium.Env):
    """Episodes of 3 to 9 steps, the even ones terminated, the odd ones truncated; three unlike action dimensions.

    Observation: `[steps left, steps taken]`. Reward: steps taken plus the action's weighted sum. Every environment
    keeps its rewards, a list per episode, in `episodes`, and refuses actions outside its action space.
    """

    observation_space = Box(-np.inf, np.inf, (2,), np.float32)
    action_space = Box(np.float32([-1.0, 0.5, -np.inf]), np.float32([3.0, 0.75, np.inf]))

    def __init__(self):
        self.episodes = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.length, self.taken = int(self.np_random.integers(3, 10)), 0
        self.episodes.append([])
        return self._observe(), {}

    def step(self, action):
        if not self.action_space.contains(action):
            raise ValueError(f"{action} lies outside of {self.action_space}")
        reward = self.taken + float(action @ [1.0, 10.0, 0.1])
        self.episodes[-1].append(reward)
        self.taken += 1
        ended, even = self.taken == self.length, self.length % 2 == 0
        return self._observe(), reward, ended and even, ended and not even, {}

    def _observe(self):
        return np.float32([self.length - self.taken, self.taken])


class Faulty(gymnasium.Env):
    """Gives one bad number: `what` is "observation" at step 4, "reward" at step 2, or "start"; ends at step 4."""

    observation_space = Box(-1.0, 1.0, (1,), np.float32)
    action_space = Box(-20.0, 20.0, (1,), np.float32)

    def __init__(self, what="nothing", bad=np.nan):
        self.what, self.bad = what, bad

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.taken = 0
        return np.array([self.bad if self.what == "start" else 0.5]), {}

    def step(self, action):
        self.taken += 1
        observation = np.array([self.bad if self.what == "observation" and self.taken == 4 else 0.5])
        reward = self.bad if self.what == "reward" and self.taken == 2 else 1.0
        return observation, reward, False, self.taken == 4, {}


class Unsupported(gymnasium.Env):
    """Two spaces and nothing else."""

    def __init__(self, observation_space, action_space):
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}


class Menu(gymnasium.Env):
    """Observations that are not one vector, actions that are not real numbers; episodes of 3 to 9 steps.

    It answers what it was given: the first part of an observation is the last action. It refuses what is not in its
    action space, and its episodes end as those of `Patchwork`.
    """

    observation_space = Dict(
        {
            "last": MultiDiscrete([3, 2]),
            "pair": Tuple((Discrete(3, start=5), MultiBinary(2))),
            "sheet": Box(-1.0, 1.0, (2, 2), np.float64),
        }
    )
    action_space = MultiDiscrete([3, 2], start=[0, -1])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.length, self.taken = int(self.np_random.integers(3, 10)), 0
        return self._observe(np.zeros(2, int)), {}

    def step(self, action):
        if not self.action_space.contains(action):
            raise ValueError(f"{action!r} lies outside of {self.action_space}")
        self.taken += 1
        ended, even = self.taken == self.length, self.length % 2 == 0
        chosen = action - self.action_space.start
        return self._observe(chosen), float(chosen @ [1.0, 10.0]), ended and even, ended and not even, {}

    def _observe(self, chosen):
        pair = (np.int64(5 + self.taken % 3), np.array([self.taken % 2, self.length % 2], np.int8))
        return {"last": chosen, "pair": pair, "sheet": np.full((2, 2), (self.taken + 10 * self.length) / 100)}
