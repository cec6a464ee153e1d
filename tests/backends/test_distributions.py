import keras
import numpy as np
import pytest
import references
from keras.ops import convert_to_tensor
from numpy.testing import assert_allclose
from on_backend import on_tensors, value_and_gradients

from nmn_keras import distributions

CLOSE = {"rtol": 1e-5, "atol": 1e-6}


def draw(*shapes, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape).astype("float32") for shape in shapes]


def slope(loss, at):
    """Gradient of `loss(x)` at an array."""
    x = keras.Variable(at)
    return value_and_gradients(lambda: loss(x + 0.0), [x])[1][0]


@pytest.mark.parametrize("actions", [1, 3])
def test_log_prob_is_the_log_of_the_product_of_densities(actions):
    arrays = draw(*[(6, 4, actions)] * 3)
    found = on_tensors(distributions.gaussian_log_prob, *arrays)
    assert found.shape == (6, 4)
    assert_allclose(found, references.gaussian_log_prob(*arrays), **CLOSE)


def test_density_integrates_to_one():
    grid = np.linspace(-30.0, 30.0, 20_001, dtype="float32")[:, None, None]
    mean, log_var = np.array([[-1.0], [2.0]], "float32"), np.array([[-3.0], [1.5]], "float32")
    density = np.exp(on_tensors(distributions.gaussian_log_prob, grid, mean, log_var))
    assert_allclose(density.sum(axis=0) * (60.0 / 20_000), [1.0, 1.0], rtol=1e-4)


@pytest.mark.parametrize("actions", [1, 3])
def test_kl_is_the_reference_and_zero_for_one_policy(actions):
    arrays = draw(*[(6, 4, actions)] * 4)
    found = on_tensors(distributions.gaussian_kl, *arrays)
    assert found.shape == (6, 4)
    assert_allclose(found, references.gaussian_kl(*arrays), rtol=1e-4, atol=1e-5)
    assert found.min() > 0.0
    same = on_tensors(distributions.gaussian_kl, *arrays[:2], *arrays[:2])
    assert_allclose(same, np.zeros((6, 4)), atol=1e-6)


def test_kl_is_the_integral_under_the_old_policy():
    grid = np.linspace(-20.0, 20.0, 40_001)[:, None]
    old, new = (np.array([0.5]), np.array([-1.0])), (np.array([-0.3]), np.array([0.8]))
    log_old, log_new = (references.gaussian_log_prob(grid, *policy) for policy in (old, new))
    integral = (np.exp(log_old) * (log_old - log_new)).sum() * (40.0 / 40_000)
    arrays = (np.asarray(x, "float32") for x in (*old, *new))
    assert_allclose(on_tensors(distributions.gaussian_kl, *arrays), integral, rtol=1e-5)


def test_on_a_circle_differences_do_not_count_whole_turns():
    mean, new_mean, log_var, new_log_var = draw(*[(6, 4, 2)] * 4, seed=1)
    mean, new_mean = np.clip(mean, -0.7, 0.7), np.clip(new_mean, -0.25, 0.25)  # less than half a period apart
    turns = 2.0 * np.random.default_rng(2).integers(-2, 3, (6, 4, 2)).astype("float32")
    density = on_tensors(lambda *x: distributions.gaussian_log_prob(*x, period=2.0), new_mean + turns, mean, log_var)
    assert_allclose(density, references.gaussian_log_prob(new_mean, mean, log_var), rtol=1e-4, atol=1e-5)
    kl = on_tensors(lambda *x: distributions.gaussian_kl(*x, period=2.0), mean, log_var, new_mean + turns, new_log_var)
    assert_allclose(kl, references.gaussian_kl(mean, log_var, new_mean, new_log_var), rtol=1e-4, atol=1e-5)
    assert np.abs(on_tensors(distributions.gaussian_log_prob, new_mean + turns, mean, log_var) - density).max() > 1.0


def test_log_prob_and_kl_gradients_are_the_slopes_of_the_references():
    action, *policies = draw(*[(4, 3, 2)] * 5)

    def loss(x):
        mean, log_var = x[0], x[1]
        log_prob = distributions.gaussian_log_prob(convert_to_tensor(action), mean, log_var)
        old = (convert_to_tensor(p) for p in policies[2:])
        return keras.ops.sum(log_prob + 3.0 * distributions.gaussian_kl(*old, mean, log_var))

    def reference(weights):
        (mean, log_var), old = weights[0], policies[2:]
        log_prob = references.gaussian_log_prob(action, mean, log_var)
        return (log_prob + 3.0 * references.gaussian_kl(*old, mean, log_var)).sum()

    at = np.stack(policies[:2])
    expected = references.finite_differences(reference, [at])[0]
    assert_allclose(slope(loss, at), expected, rtol=1e-3, atol=1e-4)


# Choices

SIZES = (3, 1, 2)


def probabilities(logits):
    """Of each dimension's choices, a list of `(..., size)`."""
    parts = np.split(np.float64(logits), np.cumsum(SIZES)[:-1], axis=-1)
    return [np.exp(part) / np.exp(part).sum(axis=-1, keepdims=True) for part in parts]


def test_choices_have_the_product_of_their_probabilities():
    logits = 3.0 * draw((6, 4, 6))[0]
    total = 0.0
    for choice in np.ndindex(SIZES):
        one_hot = np.concatenate([np.eye(size, dtype="float32")[i] for size, i in zip(SIZES, choice, strict=True)])
        found = on_tensors(lambda x, one=one_hot: distributions.categorical_log_prob(one, x, SIZES), logits)
        expected = np.prod([p[..., i] for p, i in zip(probabilities(logits), choice, strict=True)], axis=0)
        assert_allclose(np.exp(found), expected, rtol=1e-4)
        total += expected
    assert_allclose(total, np.ones((6, 4)), rtol=1e-6)


def test_kl_of_choices_is_the_sum_over_them_and_zero_for_one_policy():
    old, new = draw((6, 4, 6), (6, 4, 6))
    pairs = zip(probabilities(old), probabilities(new), strict=True)
    expected = sum((p * np.log(p / q)).sum(axis=-1) for p, q in pairs)
    found = on_tensors(lambda *x: distributions.categorical_kl(*x, SIZES), old, new)
    assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    assert found.min() > 0.0
    shifted = old + np.repeat(draw((6, 4, 3), seed=1)[0], SIZES, axis=-1)  # logits count up to a constant
    assert_allclose(on_tensors(lambda *x: distributions.categorical_kl(*x, SIZES), old, shifted), 0.0, atol=1e-5)


def test_gradients_of_choices_are_finite_where_a_probability_vanishes():
    logits = np.array([[200.0, -200.0, 0.0, 5.0, 0.0, 0.0]], "float32")
    one_hot, old = np.array([[0, 1, 0, 1, 1, 0]], "float32"), np.zeros((1, 6), "float32")

    def loss(x):
        log_prob = distributions.categorical_log_prob(convert_to_tensor(one_hot), x, SIZES)
        return keras.ops.sum(log_prob + distributions.categorical_kl(convert_to_tensor(old), x, SIZES))

    found = slope(loss, logits)
    assert np.isfinite(found).all()
    assert_allclose(found[0], [-1.0 + 1 - 1 / 3, 1.0 - 1 / 3, -1 / 3, 0.0, 0.5, -0.5], atol=1e-5)
