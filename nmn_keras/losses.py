"""Losses of the actor-critic: pure, batched, `keras.ops` only; arrays are time-major `(T, N)`."""

from keras import ops


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
