"""Discounted returns and advantages: pure, time-major `(T, N)`, `keras.ops` only.

The end of an episode is a number, never a flag: the caller sets `discount` to zero where nothing follows.
"""

from keras import ops


def discounted_sum(x, discount):
    """`y_t = x_t + discount_t * y_{t+1}` with `y_T = 0`.

    Args:
        x: `(T, N)`.
        discount: `(T, N)`, what the sum after step t is worth at step t; 0 ends an episode.

    Returns:
        `(T, N)`.
    """

    def accumulate(total, step):
        value, worth = step
        total = value + worth * total
        return total, total

    return ops.scan(accumulate, ops.zeros_like(x[0]), (x, discount), reverse=True)[1]


def generalised_advantage(reward, value, next_value, discount, trace):
    """Generalised advantage estimate, `sum_k (prod trace) * TD_k`.

    `TD_t = reward_t + discount_t * next_value_t - value_t`; the sum decays by `trace_t` from step t to t + 1.

    Args:
        reward: `(T, N)`, already scaled as the critic's values are.
        value: `(T, N)`, the critic at step t.
        next_value: `(T, N)`, the critic at the step that follows t, also where an episode was cut there.
        discount: `(T, N)`, gamma, or 0 where the episode terminated.
        trace: `(T, N)`, gamma * lambda, or 0 where the episode ended in any way.

    Returns:
        `(T, N)`.

    Reference: Schulman et al. 2016, equation 16; Vecoven et al. 2020, equation 8 with its indices corrected.
    """
    return discounted_sum(reward + discount * next_value - value, trace)


def normalise(x, epsilon=1e-6):
    """`(x - mean) / (std + epsilon)` over all elements."""
    return (x - ops.mean(x)) / (ops.std(x) + epsilon)
