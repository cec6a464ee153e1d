"""Likelihoods, divergences and losses of the actor-critic: pure, batched, `keras.ops` only.

Arrays are time-major `(T, N, ...)`; the last axis of `mean`, `log_var` and `action` is the action axis A and is
summed over. Actions here are in network units and unclipped: the environment clips, the likelihood does not.
"""

import math

from keras import ops

_LOG_TWO_PI = math.log(2.0 * math.pi)


def gaussian_log_prob(action, mean, log_var, period=None):
    """Log-density of a diagonal Gaussian: `(..., A) -> (...)`; with a period, of the difference on the circle."""
    squared = ops.square(_difference(action, mean, period)) * ops.exp(-log_var)
    return -0.5 * ops.sum(squared + log_var + _LOG_TWO_PI, axis=-1)


def gaussian_kl(mean, log_var, new_mean, new_log_var, period=None):
    """Divergence KL(old || new) of diagonal Gaussians: `(..., A) -> (...)`; periods as in `gaussian_log_prob`."""
    shift = _difference(new_mean, mean, period)
    spread = ops.exp(log_var - new_log_var) + ops.square(shift) * ops.exp(-new_log_var)
    return 0.5 * ops.sum(spread - 1.0 + new_log_var - log_var, axis=-1)


def _difference(x, y, period):
    """`x - y`, on the circle the one in [-period / 2, period / 2)."""
    return x - y if period is None else ops.mod(x - y + 0.5 * period, period) - 0.5 * period


def penalised_policy_loss(ratio, advantage, kl, penalty, kl_target, excess_weight=50.0):
    """`-mean(ratio A) + penalty * KL + excess_weight * max(0, KL - 2 kl_target)^2`, the paper's actor loss.

    Args:
        ratio: `(T, N)`, new over old probability of the action played.
        advantage: `(T, N)`, normalised.
        kl: scalar, mean divergence from the policy that played.
        penalty: the adaptive weight beta.
        kl_target: d_targ.
        excess_weight: weight of the squared hinge.

    Reference: Vecoven et al. 2020, Algorithm 4 and the authors' constants.
    """
    excess = ops.maximum(0.0, kl - 2.0 * kl_target)
    return -ops.mean(ratio * advantage) + penalty * kl + excess_weight * ops.square(excess)


def clipped_policy_loss(ratio, advantage, clip):
    """`-mean(min(ratio A, clip(ratio, 1 - clip, 1 + clip) A))`, Schulman et al. 2017, equation 7."""
    clipped = ops.clip(ratio, 1.0 - clip, 1.0 + clip)
    return -ops.mean(ops.minimum(ratio * advantage, clipped * advantage))


def value_loss(value, target):
    """Mean squared error of the critic, `(T, N)` each."""
    return ops.mean(ops.square(value - target))
