"""95 % intervals over episodes: what a statistic of means would have been on other episodes."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nmn_keras.analysis.statistics import interval

RESAMPLES = 1000


def drawn_means(values: ArrayLike, resamples: int = RESAMPLES, seed: int = 0) -> NDArray:
    """Give the mean over episodes, and the means over as many episodes drawn from them again and again.

    A statistic is computed of the whole result and then given to `with_interval`. Calls with the same number of
    episodes, and the same seed, draw the same ones, so that two statistics of one recording are paired.

    Args:
        values: (N, ...), one row an episode.
        resamples: R.
        seed: of the draws.

    Returns:
        (1 + R, ...); the first row is the mean of the episodes as they are.
    """
    values = np.asarray(values, float)
    count = len(values)
    drawn = np.random.default_rng(seed).multinomial(count, np.full(count, 1.0 / count), size=resamples)
    weights = np.concatenate([np.ones((1, count)), drawn]) / count
    return (weights @ values.reshape(count, -1)).reshape(resamples + 1, *values.shape[1:])


def with_interval(draws: NDArray) -> NDArray:
    """Give value, low and high (3, ...) of a statistic (1 + R, ...) of `drawn_means`."""
    low, high = interval(draws[1:])
    return np.stack([draws[0], low, high])


def first_at_least(curves: NDArray, level: NDArray) -> NDArray:
    """Give the first step (R,) at which curves (R, T) are at least a level (R,) or (R, 1); T where they never are."""
    reached = curves >= np.asarray(level).reshape(-1, 1)
    return np.where(reached.any(axis=1), reached.argmax(axis=1), curves.shape[1]).astype(float)
