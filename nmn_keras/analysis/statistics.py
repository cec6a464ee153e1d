"""Statistics of few training runs: running mean, interquartile mean, bootstrap intervals, probability of improvement.

Agarwal, Schwarzer, Castro, Courville, Bellemare, "Deep reinforcement learning at the edge of the statistical precipice"
(2021), whose library rliable the tests compare with. Numpy only. A run is one training seed; a stratum is one
benchmark, within which runs are drawn again.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

REPETITIONS = 2000
CONFIDENCE = 0.95


def running_mean(values: ArrayLike, window: int) -> Floats:
    """Give the mean of each value and those before it, `window` in all, fewer at the start.

    Args:
        values: `(..., T)`.
        window: number of values, from 1.

    Raises:
        ValueError: if the window is smaller than 1.
    """
    if window < 1:
        raise ValueError(f"The window of a running mean must be an integer from 1. Received: {window!r}")
    array = np.asarray(values, dtype=np.float64)
    sums = np.concatenate([np.zeros_like(array[..., :1]), np.cumsum(array, axis=-1)], axis=-1)
    ends = np.arange(1, array.shape[-1] + 1)
    starts = np.maximum(ends - window, 0)
    return (sums[..., ends] - sums[..., starts]) / (ends - starts)


def interquartile_mean(values: ArrayLike, axis: int = 0) -> Floats:
    """Give the mean without the lowest and the highest quarter, each rounded down to whole values.

    Args:
        values: any shape.
        axis: along which the mean is taken, of length N from 1.

    Raises:
        ValueError: if there is no value.
    """
    array = np.sort(np.moveaxis(np.asarray(values, dtype=np.float64), axis, 0), axis=0)
    if not len(array):
        raise ValueError(f"An interquartile mean needs at least one value. Received: shape {np.shape(values)}")
    cut = len(array) // 4
    return array[cut : len(array) - cut].mean(axis=0)


def improvement(x: ArrayLike, y: ArrayLike) -> Floats:
    """Give P(X > Y), the share of pairs in which X is the higher one, a tie counting as half.

    0.5 = no difference; it is the Mann-Whitney statistic over its number of pairs.

    Args:
        x: scores `(..., N)` of the runs of one algorithm.
        y: scores `(..., M)` of the other; leading axes as in `x`.

    Returns:
        `(...)`.
    """
    first, second = np.asarray(x)[..., :, None], np.asarray(y)[..., None, :]
    return (np.mean(first > second, axis=(-2, -1)) + np.mean(first >= second, axis=(-2, -1))) / 2


def rank_test(x: ArrayLike, y: ArrayLike) -> float:
    """Give the exact two-sided p-value of the Mann-Whitney test that X and Y are of one distribution.

    How often P(X > Y) is as far from 0.5 as here, or further, over all orders of the runs: no approximation, which few
    runs would not allow. Ties, which scores hardly have, are not taken into account.

    Args:
        x: scores `(N,)`.
        y: scores `(M,)`.
    """
    n, m = len(np.asarray(x)), len(np.asarray(y))
    # ways[k, u]: how k runs of X may stand in an order so that u pairs have X as the higher one.
    ways = np.zeros((n + 1, n * m + 1))
    ways[0, 0] = 1.0
    for place in range(n + m):
        for k in range(min(n, place + 1) - 1, max(-1, place - m - 1), -1):
            below = place - k  # runs of Y
            ways[k + 1, below:] += ways[k, : n * m + 1 - below]
    away = np.abs(np.arange(n * m + 1) - n * m / 2)
    found = abs(float(improvement(x, y)) * n * m - n * m / 2)
    return float(ways[n, away >= found - 1e-9].sum() / ways[n].sum())


def contrast_test(weights: Sequence[float], groups: Sequence[ArrayLike]) -> float:
    """Give the two-sided p-value of Welch's t test that a weighted sum of the groups' means is 0.

    Variances may differ from group to group (Welch 1947: the degrees of freedom follow from them).

    Args:
        weights: one for each group, such as (1, -1) for a difference.
        groups: scores `(N_i,)` each, N_i from 2.

    Raises:
        ValueError: if a group has fewer than two runs.
    """
    arrays = [np.asarray(group, dtype=np.float64) for group in groups]
    if min(map(len, arrays)) < 2:
        raise ValueError(f"A t test needs at least two runs of each. Received: {[len(a) for a in arrays]}")
    total = sum(weight * a.mean() for weight, a in zip(weights, arrays, strict=True))
    parts = np.array([weight**2 * a.var(ddof=1) / len(a) for weight, a in zip(weights, arrays, strict=True)])
    if not parts.any():
        return float(total == 0)
    freedom = parts.sum() ** 2 / sum(part**2 / (len(a) - 1) for part, a in zip(parts, arrays, strict=True))
    # With t = sqrt(freedom) tan(angle) the density is a power of the cosine, and smooth up to infinity.
    angle = np.arctan(abs(total) / np.sqrt(parts.sum() * freedom))
    tail, half = (
        np.trapezoid(np.cos(np.linspace(start, np.pi / 2, 10_001)) ** (freedom - 1), dx=(np.pi / 2 - start) / 10_000)
        for start in (angle, 0.0)
    )
    return float(tail / half)


def spread_test(x: ArrayLike, y: ArrayLike) -> float:
    """Give the two-sided p-value of Brown and Forsythe's test (1974) that two groups spread alike.

    Welch's t test of the distances from the median of each. Of five runs each it errs less often than it says.

    Args:
        x: scores `(N,)`, N from 2.
        y: scores `(M,)`, M from 2.

    Raises:
        ValueError: if a group has fewer than two runs.
    """
    groups = [np.asarray(group, dtype=np.float64) for group in (x, y)]
    return contrast_test((1, -1), [np.abs(group - np.median(group)) for group in groups])


def bootstrap(
    statistic: Callable[..., NDArray], strata: Sequence[ArrayLike], repetitions: int = REPETITIONS, seed: int = 0
) -> Floats:
    """Give a statistic of runs drawn again with replacement, each stratum by itself.

    Args:
        statistic: function of one array `(R, N_i, ...)` per stratum that gives `(R, ...)`.
        strata: `(N_i, ...)` each, a run in each row; their numbers may differ.
        repetitions: R.
        seed: of the draws.

    Raises:
        ValueError: if a stratum has no run.
    """
    arrays = [np.asarray(stratum, dtype=np.float64) for stratum in strata]
    if not arrays or not all(map(len, arrays)):
        raise ValueError(f"Each stratum needs at least one run. Received: shapes {[a.shape for a in arrays]}")
    generator = np.random.default_rng(seed)
    return statistic(*(a[generator.integers(len(a), size=(repetitions, len(a)))] for a in arrays))


def interval(draws: ArrayLike, confidence: float = CONFIDENCE) -> tuple[Floats, Floats]:
    """Give the percentile interval of what `bootstrap` gave, along its first axis.

    Raises:
        ValueError: if the confidence is not between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"The confidence must be between 0 and 1. Received: {confidence!r}")
    low, high = np.quantile(np.asarray(draws), [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    return low, high


def pooled_interquartile_mean(*strata: NDArray) -> Floats:
    """Give the interquartile mean `(R,)` over the runs of all strata `(R, N_i)` together, for `bootstrap`."""
    return interquartile_mean(np.concatenate(strata, axis=1), axis=1)


def mean_improvement(*strata: NDArray) -> Floats:
    """Give P(X > Y) `(R,)`, the mean over strata, for `bootstrap`.

    Args:
        *strata: X of each stratum `(R, N_i)`, then Y of each in the same order `(R, M_i)`.
    """
    half = len(strata) // 2
    return np.mean([improvement(x, y) for x, y in zip(strata[:half], strata[half:], strict=True)], axis=0)
