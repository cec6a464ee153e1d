import keras
import numpy as np
import pytest
import references
from keras.ops import convert_to_tensor
from numpy.testing import assert_allclose
from on_backend import on_tensors, value_and_gradients

from nmn_keras import losses

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
    found = on_tensors(losses.gaussian_log_prob, *arrays)
    assert found.shape == (6, 4)
    assert_allclose(found, references.gaussian_log_prob(*arrays), **CLOSE)


def test_density_integrates_to_one():
    grid = np.linspace(-30.0, 30.0, 20_001, dtype="float32")[:, None, None]
    mean, log_var = np.array([[-1.0], [2.0]], "float32"), np.array([[-3.0], [1.5]], "float32")
    density = np.exp(on_tensors(losses.gaussian_log_prob, grid, mean, log_var))
    assert_allclose(density.sum(axis=0) * (60.0 / 20_000), [1.0, 1.0], rtol=1e-4)


@pytest.mark.parametrize("actions", [1, 3])
def test_kl_is_the_reference_and_zero_for_one_policy(actions):
    arrays = draw(*[(6, 4, actions)] * 4)
    found = on_tensors(losses.gaussian_kl, *arrays)
    assert found.shape == (6, 4)
    assert_allclose(found, references.gaussian_kl(*arrays), rtol=1e-4, atol=1e-5)
    assert found.min() > 0.0
    same = on_tensors(losses.gaussian_kl, *arrays[:2], *arrays[:2])
    assert_allclose(same, np.zeros((6, 4)), atol=1e-6)


def test_kl_is_the_integral_under_the_old_policy():
    grid = np.linspace(-20.0, 20.0, 40_001)[:, None]
    old, new = (np.array([0.5]), np.array([-1.0])), (np.array([-0.3]), np.array([0.8]))
    log_old, log_new = (references.gaussian_log_prob(grid, *policy) for policy in (old, new))
    integral = (np.exp(log_old) * (log_old - log_new)).sum() * (40.0 / 40_000)
    arrays = (np.asarray(x, "float32") for x in (*old, *new))
    assert_allclose(on_tensors(losses.gaussian_kl, *arrays), integral, rtol=1e-5)


def test_on_a_circle_differences_do_not_count_whole_turns():
    mean, new_mean, log_var, new_log_var = draw(*[(6, 4, 2)] * 4, seed=1)
    mean, new_mean = np.clip(mean, -0.7, 0.7), np.clip(new_mean, -0.25, 0.25)  # less than half a period apart
    turns = 2.0 * np.random.default_rng(2).integers(-2, 3, (6, 4, 2)).astype("float32")
    density = on_tensors(lambda *x: losses.gaussian_log_prob(*x, period=2.0), new_mean + turns, mean, log_var)
    assert_allclose(density, references.gaussian_log_prob(new_mean, mean, log_var), rtol=1e-4, atol=1e-5)
    kl = on_tensors(lambda *x: losses.gaussian_kl(*x, period=2.0), mean, log_var, new_mean + turns, new_log_var)
    assert_allclose(kl, references.gaussian_kl(mean, log_var, new_mean, new_log_var), rtol=1e-4, atol=1e-5)
    assert np.abs(on_tensors(losses.gaussian_log_prob, new_mean + turns, mean, log_var) - density).max() > 1.0


@pytest.mark.parametrize("kl", [0.001, 0.0059, 0.02, 0.5])
def test_penalised_loss_is_the_paper_s(kl):
    ratio, advantage = draw((5, 4), (5, 4))
    ratio = np.exp(0.3 * ratio)
    found = on_tensors(losses.penalised_policy_loss, ratio, advantage, kl, 1.7, 0.003, 40.0)
    expected = references.penalised_policy_loss(ratio, advantage, kl, 1.7, 0.003, 40.0)
    assert_allclose(found, expected, **CLOSE)
    without = references.penalised_policy_loss(ratio, advantage, kl, 1.7, 0.003, 0.0)
    assert (expected > without) == (kl > 0.006)


def test_excess_weighs_fifty_unless_told():
    ratio, advantage = np.ones((2, 2), "float32"), np.array([[1.0, 2.0], [3.0, 6.0]], "float32")
    found = on_tensors(losses.penalised_policy_loss, ratio, advantage, 0.206, 2.0, 0.003)
    assert_allclose(found, -3.0 + 2.0 * 0.206 + 50.0 * 0.2**2, rtol=1e-5)


def test_clipped_loss_counts_no_gain_beyond_the_clip():
    ratio, advantage = draw((8, 6), (8, 6))
    ratio = np.exp(0.3 * ratio)
    found = on_tensors(losses.clipped_policy_loss, ratio, advantage, 0.2)
    assert_allclose(found, references.clipped_policy_loss(ratio, advantage, 0.2), **CLOSE)
    assert found > -(ratio * advantage).mean() + 0.01


def test_clipped_loss_is_the_plain_one_inside_the_clip():
    ratio, advantage = draw((8, 6), (8, 6))
    ratio = 1.0 + 0.19 * np.tanh(ratio)
    found = on_tensors(losses.clipped_policy_loss, ratio, advantage, 0.2)
    assert_allclose(found, -(ratio * advantage).mean(), **CLOSE)


def test_clipped_loss_pushes_only_where_it_must():
    ratio = np.array([1.3, 1.3, 0.7, 0.7, 1.1], "float32")
    advantage = np.array([2.0, -2.0, 2.0, -2.0, 1.0], "float32")
    found = slope(lambda r: losses.clipped_policy_loss(r, convert_to_tensor(advantage), 0.2), ratio)
    assert_allclose(found, np.array([0.0, 2.0, -2.0, 0.0, -1.0]) / 5.0, **CLOSE)


def test_value_loss_is_the_mean_square():
    value, target = draw((5, 4), (5, 4))
    found = on_tensors(losses.value_loss, value, target)
    assert_allclose(found, ((value - target) ** 2).mean(), **CLOSE)
    found = slope(lambda v: losses.value_loss(v, convert_to_tensor(target)), value)
    assert_allclose(found, 2.0 * (value - target) / 20.0, **CLOSE)


def test_log_prob_and_kl_gradients_are_the_slopes_of_the_references():
    action, *policies = draw(*[(4, 3, 2)] * 5)

    def loss(x):
        mean, log_var = x[0], x[1]
        log_prob = losses.gaussian_log_prob(convert_to_tensor(action), mean, log_var)
        old = (convert_to_tensor(p) for p in policies[2:])
        return keras.ops.sum(log_prob + 3.0 * losses.gaussian_kl(*old, mean, log_var))

    def reference(weights):
        (mean, log_var), old = weights[0], policies[2:]
        log_prob = references.gaussian_log_prob(action, mean, log_var)
        return (log_prob + 3.0 * references.gaussian_kl(*old, mean, log_var)).sum()

    at = np.stack(policies[:2])
    expected = references.finite_differences(reference, [at])[0]
    assert_allclose(slope(loss, at), expected, rtol=1e-3, atol=1e-4)
