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
