import numpy as np
import pytest
import references
from numpy.testing import assert_allclose
from on_backend import on_tensors

from nmn_keras import returns

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
STEPS, ROWS = 11, 4


def draw(count, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(STEPS, ROWS)).astype("float32") for _ in range(count)]


def ends():
    """Endings in the middle, in neighbouring steps, at the last step and nowhere, one row each."""
    ended = np.zeros((STEPS, ROWS), "float32")
    ended[4, 0] = ended[2, 1] = ended[3, 1] = ended[-1, 2] = 1.0
    return ended


def test_discounted_sum_is_every_product_multiplied_out():
    x, discount = draw(2)
    found = on_tensors(returns.discounted_sum, x, np.tanh(discount))
    assert_allclose(found, references.discounted_sum(x, np.tanh(discount)), **CLOSE)


@pytest.mark.parametrize("discount", [0.0, 0.9, 1.0])
def test_discounted_sum_never_crosses_an_ending(discount):
    (reward,) = draw(1)
    found = on_tensors(returns.discounted_sum, reward, discount * (1.0 - ends()))
    assert_allclose(found, references.episode_returns(reward, ends(), discount), **CLOSE)


def test_discounted_sum_reduces_to_the_rewards_and_to_their_sum():
    (reward,) = draw(1)
    nothing, everything = np.zeros_like(reward), np.ones_like(reward)
    assert_allclose(on_tensors(returns.discounted_sum, reward, nothing), reward, **CLOSE)
    backwards = reward[::-1].cumsum(axis=0)[::-1]
    assert_allclose(on_tensors(returns.discounted_sum, reward, everything), backwards, **CLOSE)


@pytest.mark.parametrize(("discount", "trace"), [(0.9, 0.8), (1.0, 1.0), (0.998, 0.98), (0.5, 0.0)])
def test_advantage_is_the_sum_of_discounted_differences(discount, trace):
    reward, value, next_value = draw(3)
    found = on_tensors(
        returns.generalised_advantage,
        reward,
        value,
        next_value,
        np.full((STEPS, ROWS), discount),
        discount * trace * (1.0 - ends()),
    )
    expected = references.episode_advantages(reward, value, next_value, ends(), discount, trace)
    assert_allclose(found, expected, **CLOSE)


def test_advantage_without_trace_is_the_one_step_difference():
    reward, value, next_value, discount = draw(4)
    found = on_tensors(returns.generalised_advantage, reward, value, next_value, discount, 0.0 * discount)
    assert_allclose(found, reward + discount * next_value - value, **CLOSE)


def test_advantage_with_full_trace_is_the_return_less_the_value():
    """The critic's later values cancel where each step's successor is the next step."""
    reward, value = draw(2)
    next_value = np.concatenate([value[1:], 0.0 * value[:1]])
    discount = 0.9 * (1.0 - ends())
    found = on_tensors(returns.generalised_advantage, reward, value, next_value, discount, discount)
    assert_allclose(found, references.episode_returns(reward, ends(), 0.9) - value, **CLOSE)


def test_normalised_numbers_have_mean_zero_and_deviation_one():
    (x,) = draw(1)
    found = on_tensors(returns.normalise, 7.0 * x + 3.0)
    assert_allclose([found.mean(), found.std()], [0.0, 1.0], atol=1e-5)
    assert_allclose(found, (x - x.mean()) / x.std(), rtol=1e-4, atol=1e-5)


def test_normalised_constant_is_finite():
    spread = on_tensors(returns.normalise, np.array([[1.0, 1.0], [1.0, 3.0]]))
    assert_allclose(spread.sum(), 0.0, atol=1e-5)
    assert spread.max() > 1.7
    assert_allclose(on_tensors(returns.normalise, np.full((3, 2), 5.0)), np.zeros((3, 2)))
