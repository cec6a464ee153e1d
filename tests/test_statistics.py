"""The statistics of runs against rliable and scipy, and what must be true of them."""

import itertools

import numpy as np
import pytest
import scipy.stats
from rliable import library, metrics

from nmn_keras.analysis import comparison, statistics


@pytest.fixture
def scores():
    """Runs of two algorithms on three tasks, some equal to one another."""
    generator = np.random.default_rng(7)
    first = generator.normal([0.5, 0.7, 0.9], [0.2, 0.1, 0.3], size=(9, 3)).round(1)
    return first, generator.normal([0.4, 0.75, 0.7], 0.2, size=(6, 3)).round(1)


def test_a_running_mean_is_the_mean_of_the_last_values():
    values = np.random.default_rng(0).normal(1e4, 1, size=(2, 30))
    smooth = statistics.running_mean(values, 7)
    expected = [values[:, max(0, t - 6) : t + 1].mean(axis=1) for t in range(30)]
    np.testing.assert_allclose(smooth, np.stack(expected, axis=1), rtol=1e-12)
    np.testing.assert_allclose(statistics.running_mean(values, 1), values, rtol=1e-12)
    with pytest.raises(ValueError, match=r"must be an integer from 1\. Received: 0"):
        statistics.running_mean(values, 0)


@pytest.mark.parametrize("runs", range(1, 17))
def test_the_interquartile_mean_is_that_of_rliable(runs):
    values = np.random.default_rng(runs).normal(size=(runs, 1))
    assert statistics.interquartile_mean(values)[0] == pytest.approx(metrics.aggregate_iqm(values), abs=1e-12)


def test_the_probability_of_improvement_is_that_of_rliable(scores):
    x, y = scores
    ours = statistics.mean_improvement(*x.T[:, None], *y.T[:, None])[0]
    assert ours == pytest.approx(metrics.probability_of_improvement(x, y), abs=1e-12)
    assert statistics.improvement([3, 4], [1, 2]) == 1 and statistics.improvement([1, 1], [1, 2]) == 0.25


@pytest.mark.parametrize(("n", "m"), [(1, 1), (5, 5), (5, 15), (15, 15), (4, 9)])
def test_the_rank_test_is_the_exact_one_of_scipy(n, m):
    generator = np.random.default_rng(n)
    for shift in (0.0, 0.5, 3.0):
        x, y = generator.normal(shift, size=n), generator.normal(size=m)
        expected = scipy.stats.mannwhitneyu(x, y, method="exact").pvalue
        assert statistics.rank_test(x, y) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("n", "m"), [(2, 2), (5, 5), (5, 15)])
def test_the_test_of_a_contrast_is_welch_s_of_scipy(n, m):
    generator = np.random.default_rng(n)
    for shift in (0.0, 1.0, 5.0):
        x, y = generator.normal(shift, 2.0, size=n), generator.normal(size=m)
        expected = scipy.stats.ttest_ind(x, y, equal_var=False).pvalue
        assert statistics.contrast_test((1, -1), (x, y)) == pytest.approx(expected, rel=1e-5)
    assert statistics.contrast_test((1, -1), ([1.0, 1.0], [1.0, 1.0])) == 1.0
    with pytest.raises(ValueError, match=r"at least two runs of each. Received: \[1, 2\]"):
        statistics.contrast_test((1, -1), ([1.0], [1.0, 2.0]))


@pytest.mark.parametrize(("n", "m"), [(5, 5), (12, 15)])
def test_the_test_of_spreads_is_brown_and_forsythe_s(n, m):
    """That of scipy has one variance for both groups, which makes no difference where they are of one size."""
    generator = np.random.default_rng(n)
    x, y = generator.normal(5.0, 3.0, size=n), generator.normal(size=m)
    apart = [np.abs(group - np.median(group)) for group in (x, y)]
    expected = scipy.stats.ttest_ind(*apart, equal_var=False)
    assert statistics.spread_test(x, y) == pytest.approx(expected.pvalue, rel=1e-5)
    if n == m:
        assert expected.statistic**2 == pytest.approx(scipy.stats.levene(x, y, center="median").statistic)


def test_the_test_of_spreads_does_not_err_more_often_than_it_says():
    generator = np.random.default_rng(0)
    for size in (5, 15):
        found = [statistics.spread_test(*generator.normal(size=(2, size))) for _ in range(1000)]
        assert np.mean(np.less(found, 0.05)) < 0.05


def test_tests_of_differences_of_differences_err_as_often_as_they_say():
    """Over draws without one, of seeds of which some differ more than others."""
    generator, deviations = np.random.default_rng(0), (1.0, 1.0, 4.0, 2.0)
    found = [
        statistics.contrast_test((-1, 1, 1, -1), [generator.normal(0.0, d, size=5) for d in deviations])
        for _ in range(1000)
    ]
    assert 0.03 < np.mean(np.less(found, 0.05)) < 0.07


def test_intervals_of_five_seeds_err_twice_as_often_as_they_say():
    """Why verdicts need the rank test too, and the 9.5 % that the page of results says."""
    excluded = tested = 0
    orders = list(itertools.combinations(range(10), 5))
    for above in orders:
        found = comparison.probability(above, [rank for rank in range(10) if rank not in above])
        excluded += not found.low <= 0.5 <= found.high
        tested += comparison.verdict(found, 0.5) != "no difference shown"
    assert excluded / len(orders) == pytest.approx(0.095, abs=5e-4) and tested / len(orders) < 0.05


def test_intervals_are_those_of_rliable(scores):
    x, y = scores
    # The first tolerance is a little more than a step, 0.053, in which means of so few tenths go.
    one = (x, metrics.aggregate_iqm, statistics.pooled_interquartile_mean, [*x.T], 4000, 0.06)
    two = ((x, y), metrics.probability_of_improvement, statistics.mean_improvement, [*x.T, *y.T], 250, 0.15)
    for arrays, theirs, ours, strata, reps, tolerance in (one, two):  # rliable's probability takes 10 ms each
        np.random.seed(1)  # noqa: NPY002 - rliable draws with the global generator, whatever its `random_state`
        _, expected = library.get_interval_estimates(
            {"a": arrays}, lambda *s, theirs=theirs: np.array([theirs(*s)]), reps=reps
        )
        low, high = expected["a"][:, 0]
        found = statistics.interval(statistics.bootstrap(ours, strata, repetitions=20_000))
        np.testing.assert_allclose(found, [low, high], atol=tolerance * (high - low))


def test_an_interval_covers_the_truth_as_often_as_it_says():
    generator = np.random.default_rng(3)
    covered = []
    for _ in range(400):
        runs = generator.normal(2.0, 1.0, size=15)
        draws = statistics.bootstrap(
            lambda r: r.mean(axis=1), [runs], repetitions=500, seed=int(generator.integers(1e9))
        )
        low, high = statistics.interval(draws)
        covered.append(low <= 2.0 <= high)
    assert 0.88 < np.mean(covered) < 0.97, np.mean(covered)  # the percentile bootstrap is a little narrow at 15 runs


def test_runs_are_drawn_within_their_stratum_and_curves_keep_together():
    strata = [np.zeros(3), np.ones(5)]
    assert (statistics.bootstrap(lambda a, b: np.stack([a.max(1), b.min(1)]), strata, 50) == [[0.0], [1.0]]).all()
    curves = np.arange(4.0)[:, None] + np.zeros(6)
    means = statistics.bootstrap(lambda r: r.mean(axis=1), [curves], 50)
    assert means.shape == (50, 6) and (means == means[:, :1]).all() and np.ptp(means) > 0
    with pytest.raises(ValueError, match=r"needs at least one run\. Received: shapes \[\(0,\)\]"):
        statistics.bootstrap(np.mean, [[]])
