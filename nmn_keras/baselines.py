"""The Bayes-optimal policy of benchmark 1 and the return it earns.

Reference: "Bayes optimal policy for benchmark 1", appendix of Vecoven et al. (2020), Theorems 1
and 2. Biases are told here by what must be added to an observation to be right, `a - x`: with the
environment's sign, `p = x - alpha`, that is -alpha, whose law is the same.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

ACTION_MAX = 20.0
EDGE = 1e-4
"""How far inside the edge of the goal the second guess lands: Theorem 1 puts it on the edge, where
it misses. Wide enough for float32; costs less than 1e-4 of return."""


def bayes_optimal_return(steps: int = 1400, discount: float = 0.998, alpha_max: float = 10.0) -> float:
    """Return the expected discounted return of the Bayes-optimal policy of benchmark 1.

    Theorem 2 with its misprints corrected. With `d = a0 - x0` the first guess and alpha uniform on
    [-alpha_max, alpha_max],

        E[r0] = (21 - alpha_max^2 - d^2) / (2 alpha_max)
        E[r1] = (10 + 11 alpha_max - alpha_max^2 + (9 + 2 alpha_max) d - d^2) / (2 alpha_max)

    and every later reward is 10. `E[r0] + discount E[r1]` is largest at
    `d = discount (alpha_max + 4.5) / (1 + discount)`, where it is

        discount^2 (alpha_max + 4.5)^2 / (2 alpha_max (1 + discount))
        + (21 - alpha_max^2 + discount (10 + 11 alpha_max - alpha_max^2)) / (2 alpha_max).

    Only the first two rewards depend on the guess, so that this holds for any number of steps from
    2; of a single step only E[r0] counts, and its best guess is `d = 0`.

    Args:
        steps: length of an episode, from 1.
        discount: gamma, in [0, 1].
        alpha_max: largest bias, in [1 + 5.5 discount, 15]: below, the best first guess is another;
            above, goals are out of reach of an action.

    Returns:
        The return; 4679.11 with the defaults. It is a supremum, because the second guess has to
        land just within the edge of an open interval.

    Raises:
        ValueError: if an argument is not accepted.
    """
    check_solvable(discount, alpha_max)
    if steps < 1:
        raise ValueError(f"An episode has at least one step. steps is accepted from 1. Received: {steps!r}")
    first = (21.0 - alpha_max**2) / (2.0 * alpha_max)
    if steps == 1:
        return first
    second = (10.0 + 11.0 * alpha_max - alpha_max**2) / (2.0 * alpha_max)
    exploring = (discount * (alpha_max + 4.5)) ** 2 / (2.0 * alpha_max * (1.0 + discount))
    known = 10.0 * float(np.sum(discount ** np.arange(2.0, steps)))
    return first + discount * second + exploring + known


def check_solvable(discount: float, alpha_max: float) -> None:
    """Refuse what Theorems 1 and 2 do not cover.

    Raises:
        ValueError: if the discount is outside [0, 1] or alpha_max outside
            [1 + 5.5 discount, 15].
    """
    if not 0.0 <= discount <= 1.0:
        raise ValueError(f"discount is out of range. A number in [0, 1] is accepted. Received: {discount!r}")
    smallest = 1.0 + 5.5 * discount
    if not smallest <= alpha_max <= 15.0:
        raise ValueError(
            "The closed form does not hold for this alpha_max. Accepted with discount "
            f"{discount:g}: {smallest:g} to 15. Received: {alpha_max!r}"
        )


class BayesOptimalPolicy:
    """The policy of Theorem 1, for any number of episodes at once.

    The first guess is `x + discount (alpha_max + 4.5) / (1 + discount)`. A miss leaves two biases,
    equally far from what was played on either side. If both are possible the second guess aims
    just within the edge of the nearer one and so learns the farther one from a miss. From the
    third step on the bias is known.

    Where the theorem intersects two pairs of numbers, this remembers the second candidate, which is
    the same and compares no floats. A miss when the bias was thought known (the task has changed,
    or a rounding error at an edge) begins anew from that miss.

    An agent like the trained ones: numpy in, numpy out, all memory in the packed state
    `[begun, previous observation, bias believed, other candidate]`, zeros for a new episode; the
    last two are equal when there is no other candidate.

    Args:
        discount: gamma, in [0, 1].
        alpha_max: largest bias, in [1 + 5.5 discount, 15].

    Raises:
        ValueError: if an argument is not accepted.
    """

    state_size = 4

    def __init__(self, discount: float = 0.998, alpha_max: float = 10.0):
        check_solvable(discount, alpha_max)
        self.discount = discount
        self.alpha_max = alpha_max

    def initial_state(self, batch_size: int) -> Floats:
        """Return the memory (batch_size, 4) of episodes that have not begun: zeros."""
        return np.zeros((batch_size, self.state_size), np.float32)

    def act(
        self,
        observation: Floats,
        prev_action: Floats,
        prev_reward: Floats,
        state: Floats,
        *,
        rng: np.random.Generator | None = None,
    ) -> tuple[Floats, Floats]:
        """Play one step of N episodes.

        Args:
            observation: x (N, 1).
            prev_action: actions played the step before (N, 1); not used in a first step.
            prev_reward: their rewards (N, 1); not used in a first step.
            state: memory (N, 4).
            rng: accepted as by all agents and not used: the policy is deterministic.

        Returns:
            Actions (N, 1) in [-20, 20] and memory (N, 4), float32.

        Raises:
            ValueError: if an array has another shape.
        """
        self._check_shapes(observation, prev_action, prev_reward, state)
        begun, seen, believed, other = (state[:, [column]] for column in range(self.state_size))
        played = prev_action - seen
        side = np.where(played >= 0, 1, -1)
        near = played - side * np.abs(prev_reward)
        far = played + side * np.abs(prev_reward)
        possible = np.abs(far) <= self.alpha_max + EDGE
        guess = np.full_like(seen, self.discount * (self.alpha_max + 4.5) / (1 + self.discount))

        known = [begun == 0, prev_reward > 0, believed != other]  # else: an unexpected miss
        values = [guess, believed, other]
        believed = np.select(known, values, near)
        other = np.select(known, values, np.where(possible, far, near))
        aim = believed + np.where(believed != other, side * (1 - EDGE), 0)
        action = np.clip(observation + aim, -ACTION_MAX, ACTION_MAX)
        state_out = np.concatenate([np.ones_like(seen), observation, believed, other], axis=1)
        return action.astype(np.float32), state_out.astype(np.float32)

    def _check_shapes(self, *arrays: Floats) -> None:
        """Check the arrays that `act` takes, in its order."""
        received = [np.shape(array) for array in arrays]
        batch = received[0][:1]
        if received != [(*batch, 1)] * 3 + [(*batch, self.state_size)]:
            raise ValueError(
                "The arrays do not fit. Observation, previous action and previous reward (N, 1) "
                f"and state (N, {self.state_size}) are accepted. Received: {received}"
            )
