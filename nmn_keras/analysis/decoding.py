"""How much one set of numbers tells of another: held-out predictions and their R^2.

Ridge regression on the features and on Gaussian bumps around some of the episodes finds smooth relations of any form.
R^2 is that of episodes which were not shown to it: about 0 where there is nothing to know (by chance also a little
less), 1 where all is known. It is a lower bound: another estimator might find more.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nmn_keras.analysis.resampling import drawn_means, with_interval

FOLDS = 5
CENTRES = 120
"""Number of bumps."""
WIDTHS = (0.3, 1.0, 3.0)
"""Widths of the bumps that are tried, in median distances between episodes; the largest is nearly linear."""
RIDGES = 10.0 ** np.arange(-4, 3)
"""Ridges that are tried."""
CONSTANT = 1e-6
"""Features that deviate by less tell nothing."""


def predict_held_out(features: np.ndarray, targets: np.ndarray, seed: int = 0) -> np.ndarray:
    """Predict each episode's targets from its features, from a fit to other episodes.

    Ridge regression in 5 folds. Width and ridge are chosen within the other folds, by their
    leave-one-out error, for each target apart. No prediction leaves the range of the targets shown: one episode whose
    features are unlike all others would else decide the error of all.

    Args:
        features: (N, F), one row an episode.
        targets: (N, K).
        seed: of the folds.

    Returns:
        (N, K). The mean of the other folds where no feature varies.

    Raises:
        ValueError: the shapes do not fit, or there are fewer than 10 episodes.
    """
    features, targets = np.asarray(features, float), np.asarray(targets, float)
    if not features.ndim == targets.ndim == 2 or len(features) != len(targets) or len(features) < 2 * FOLDS:
        raise ValueError(
            f"Features (N, F) and targets (N, K) of the same {2 * FOLDS} or more episodes are accepted. "
            f"Received: shapes {features.shape} and {targets.shape}"
        )
    features = _standardise(features)
    predicted = np.empty_like(targets)
    fold = np.random.default_rng(seed).permutation(len(features)) % FOLDS
    for number in range(FOLDS):
        shown, asked = fold != number, fold == number
        mean = targets[shown].mean(axis=0)
        guess = mean + _fit_and_predict(features[shown], targets[shown] - mean, features[asked])
        predicted[asked] = guess.clip(targets[shown].min(axis=0), targets[shown].max(axis=0))  # no extrapolation
    return predicted


def explained(targets: ArrayLike, predicted: ArrayLike) -> NDArray:
    """Give R^2 with its 95 % interval over episodes (3,): value, low, high.

    1 minus the squared error as a share of the squared deviation from the mean, both summed over the targets (N, K).
    Targets (sin, cos) of an angle give its R^2 on the circle. 0 where the targets are constant.
    """
    targets, predicted = np.asarray(targets, float), np.asarray(predicted, float)
    error = np.square(targets - predicted)
    targets = targets - targets.mean(axis=0)  # squares of smaller numbers lose less
    draws = drawn_means(np.stack([error, np.square(targets), targets], axis=1))
    deviation = (draws[:, 1] - np.square(draws[:, 2])).sum(axis=1)
    share = draws[:, 0].sum(axis=1) / np.where(deviation > 0, deviation, 1.0)
    return with_interval(np.where(deviation > CONSTANT**2, 1.0 - share, 0.0))


def circle(angle: ArrayLike) -> NDArray:
    """Give (sin, cos) (N, 2 K) of angles (N,) or (N, K) in radians."""
    columns = np.asarray(angle, float).reshape(len(np.asarray(angle)), -1)
    return np.concatenate([np.sin(columns), np.cos(columns)], axis=1)


def _standardise(features):
    deviation = features.std(axis=0)
    varying = deviation > CONSTANT
    return (features[:, varying] - features[:, varying].mean(axis=0)) / deviation[varying]


def _fit_and_predict(shown, targets, asked):
    """Predictions (M, K) for the rows `asked` (M, F), fitted to `shown` (N, F) and centred targets (N, K)."""
    best = np.full(targets.shape[1], np.inf)
    predicted = np.zeros((len(asked), targets.shape[1]))
    for width in WIDTHS if shown.shape[1] else ():
        basis, asked_basis = _basis(shown, asked, width)
        values, vectors = np.linalg.eigh(basis.T @ basis)
        rotated, asked_rotated = basis @ vectors, asked_basis @ vectors
        projected = rotated.T @ targets
        for ridge in RIDGES:
            inverse = 1.0 / (np.maximum(values, 0.0) + ridge)
            weights = inverse[:, np.newaxis] * projected
            # The error of a row that is left out, in closed form: its residual over 1 minus its leverage.
            leverage = 1.0 + 1e-9 - np.square(rotated) @ inverse
            error = np.square((targets - rotated @ weights) / leverage[:, np.newaxis]).sum(axis=0)
            better = error < best
            best = np.where(better, error, best)
            predicted = np.where(better, asked_rotated @ weights, predicted)
    return predicted


def _basis(shown, asked, width):
    """The features themselves and how near some of the shown rows are, for the rows shown and those asked."""
    centres = shown[:CENTRES]  # the rows are in no order
    median = np.median(_squares(centres, centres)[np.triu_indices(len(centres), 1)])
    scale = -0.5 / (width**2 * max(median, CONSTANT))
    bases = [np.hstack([rows, np.exp(scale * _squares(rows, centres))]) for rows in (shown, asked)]
    mean = bases[0].mean(axis=0)
    return bases[0] - mean, bases[1] - mean


def _squares(a, b):
    """Squared distances (N, M) between rows."""
    return np.maximum(np.square(a).sum(1)[:, np.newaxis] + np.square(b).sum(1) - 2.0 * a @ b.T, 0.0)
