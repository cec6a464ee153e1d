"""One group of seeds summarised, two compared, and what is said of it: "holds" only where an interval says so."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nmn_keras.analysis.statistics import (
    bootstrap,
    interquartile_mean,
    interval,
    mean_improvement,
    pooled_interquartile_mean,
    rank_test,
    spread_test,
)

DRAWS = 50_000
"""Of a bootstrap of numbers: so many that chance does not move the digits that are shown, or hardly."""
SIGNIFICANT = 0.05
FEWEST = 5
"""Seeds below which no interval is given: drawn again, two or three runs are no more than their range."""


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval, which is missing where there are too few seeds."""

    value: float
    low: float | None = None
    high: float | None = None
    p: float | None = None
    """Of a test that there is no difference, where there is one."""

    def text(self, digits: int = 0, signs: str = "") -> str:
        """Give "4539 [4501, 4560]", or the number alone.

        Args:
            digits: after the point.
            signs: of the format, such as "," or "+".
        """
        shown = [f"{number:{signs}.{digits}f}" for number in (self.value, self.low, self.high) if number is not None]
        return shown[0] + (f" [{shown[1]}, {shown[2]}]" if len(shown) == 3 else "")

    def tested(self) -> str:
        """Give ", p = 0.016" or ", p < 0.001" to follow the text; empty where nothing was tested."""
        if self.p is None:
            return ""
        return ", p < 0.001" if self.p < 0.001 else f", p = {self.p:.3f}"


def estimate(statistic: Callable[..., NDArray], strata: Sequence[ArrayLike], fewest: int = FEWEST) -> Estimate:
    """Give a statistic of strata of runs with its bootstrap interval.

    Args:
        statistic: as for `bootstrap`.
        strata: `(N_i, ...)` each, a run in each row.
        fewest: no interval is given if a stratum has fewer runs.
    """
    value = float(statistic(*(np.asarray(stratum, float)[None] for stratum in strata))[0])
    if min(len(np.asarray(stratum)) for stratum in strata) < fewest:
        return Estimate(value)
    low, high = interval(bootstrap(statistic, strata, DRAWS))
    return Estimate(value, float(low), float(high))


def typical(values: ArrayLike) -> Estimate:
    """Give the interquartile mean of a number per seed."""
    return estimate(pooled_interquartile_mean, [values])


def probability(x: ArrayLike, y: ArrayLike) -> Estimate:
    """Give P(X > Y) for the seeds of two groups."""
    return _tested(estimate(mean_improvement, [x, y]), rank_test, x, y)


def difference(x: ArrayLike, y: ArrayLike) -> Estimate:
    """Give the difference of interquartile means, X - Y."""
    return estimate(lambda a, b: interquartile_mean(a, axis=1) - interquartile_mean(b, axis=1), [x, y])


def spread(values: ArrayLike) -> float:
    """Give the standard deviation over seeds, of a sample; NaN for one seed."""
    array = np.asarray(values, float)
    return float(array.std(ddof=1)) if len(array) > 1 else float("nan")


def spread_ratio(x: ArrayLike, y: ArrayLike) -> Estimate:
    """Give the ratio of standard deviations over seeds, X over Y; draws in which Y is constant count as 1."""

    def ratio(a, b):
        above, below = a.std(axis=1, ddof=1), b.std(axis=1, ddof=1)
        return np.divide(above, below, out=np.ones_like(above), where=below > 0)

    return _tested(estimate(ratio, [x, y]), spread_test, x, y)


def _tested(found, test, x, y):
    """Of fewer seeds than an interval takes a test says nothing either."""
    return found if found.low is None else replace(found, p=test(x, y))


def verdict(found: Estimate, even: float, higher: bool = True) -> str:
    """Say whether a claimed inequality holds: the interval excludes that there is no difference, and a test does too.

    Args:
        found: what was measured.
        even: the value at which there is no difference: 0.5 for a probability, 0 for a difference, 1 for a ratio.
        higher: whether the claim is that the measure is above `even`.
    """
    if found.low is None or found.high is None:
        return "too few seeds"
    if (found.low > even or found.high < even) and (found.p is None or found.p < SIGNIFICANT):
        return "holds" if (found.value > even) == higher else "does not hold"
    return "no difference shown"
