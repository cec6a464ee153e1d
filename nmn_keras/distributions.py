"""Log-likelihoods and divergences of policies: pure, batched, `keras.ops` only.

The last axis of `mean`, `log_var` and `action` is the action axis A and is summed over; that of `logits` holds the
choices of all action dimensions, one dimension after the other.
"""

import math

import numpy as np
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


def gaussian_entropy(log_var):
    """Entropy of a diagonal Gaussian: `(..., A) -> (...)`."""
    return 0.5 * ops.sum(log_var + (_LOG_TWO_PI + 1.0), axis=-1)


def categorical_entropy(logits, sizes):
    """Entropy of independent choices: `(..., sum of sizes) -> (...)`."""
    logs = log_softmax(logits, sizes)
    return -ops.sum(ops.exp(logs) * logs, axis=-1)


def categorical_log_prob(chosen, logits, sizes):
    """Log-probability of independent choices: `(..., sum of sizes) -> (...)`.

    Args:
        chosen: 1 at each dimension's choice, else 0, `(..., sum of sizes)`.
        logits: `(..., sum of sizes)`.
        sizes: number of choices of each dimension.
    """
    return ops.sum(ops.multiply(chosen, log_softmax(logits, sizes)), axis=-1)


def categorical_kl(logits, new_logits, sizes):
    """Divergence KL(old || new) of independent choices: `(..., sum of sizes) -> (...)`."""
    old, new = log_softmax(logits, sizes), log_softmax(new_logits, sizes)
    return ops.sum(ops.exp(old) * (old - new), axis=-1)


def log_softmax(logits, sizes):
    """Logarithms of the probabilities of each dimension's choices, `(..., sum of sizes)`."""
    parts = [ops.log_softmax(part, axis=-1) for part in by_dimension(logits, sizes)]
    return parts[0] if len(parts) == 1 else ops.concatenate(parts, axis=-1)


def by_dimension(x, sizes):
    """The parts `(..., size)` of `(..., sum of sizes)`."""
    ends = np.cumsum(sizes).tolist()
    return [x[..., end - size : end] for size, end in zip(sizes, ends, strict=True)]


def _difference(x, y, period):
    """`x - y`, on the circle the one in [-period / 2, period / 2)."""
    return x - y if period is None else ops.mod(x - y + 0.5 * period, period) - 0.5 * period
