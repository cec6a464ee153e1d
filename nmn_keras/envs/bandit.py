"""A family of bandits: which arm pays is found out by trying."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Discrete


class Bandit(gymnasium.Env):
    """An arm is pulled, and that was the episode: for `nmn_keras/Trial-v0`, which plays many with one task.

    - Task: `arms` probabilities p ~ U[0, 1], drawn anew at each reset that does not name one; `info["task"]` tells it,
      `reset(options={"task": ...})` sets it.
    - Observation: nothing, the one value of `Discrete(1)`.
    - Action: the number of an arm, 0 to `arms` - 1.
    - Reward: 1 with that arm's probability, else 0.
    - End: every step is terminated.

    Duan et al. 2016, section 3.1: trials of 10, 100 and 500 pulls with 5, 10 and 50 arms.

    Args:
        arms: number of arms, at least 2.
    """

    def __init__(self, arms: int = 5):
        if isinstance(arms, bool) or not isinstance(arms, int | np.integer) or arms < 2:
            raise ValueError(f"`arms` must be an integer >= 2. Received: arms={arms!r}")
        self.observation_space = Discrete(1)
        self.action_space = Discrete(int(arms))
        self._task = np.zeros(arms)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Begin an episode of one pull.

        Args:
            seed: of the task and of the rewards.
            options: "task", the arms' probabilities.

        Raises:
            ValueError: if the task is not one probability for each arm.
        """
        super().reset(seed=seed)
        drawn = self.np_random.random(len(self._task))  # drawn all the same: later numbers do not depend on the options
        task = np.asarray((options or {}).get("task", drawn), float)
        if task.shape != drawn.shape or not ((task >= 0.0) & (task <= 1.0)).all():
            raise ValueError(f"A task is {len(drawn)} probabilities, in [0, 1] each. Received: {task}")
        self._task = task
        return 0, {"task": self._task.copy()}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Pull an arm.

        Raises:
            ValueError: if there is no such arm.
        """
        if not self.action_space.contains(action):
            raise ValueError(f"There is no such arm. Accepted: 0 to {len(self._task) - 1}. Received: {action!r}")
        reward = float(self.np_random.random() < self._task[action])
        return 0, reward, True, False, {"task": self._task.copy()}
