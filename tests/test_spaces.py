import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import (
    Box,
    Dict,
    Discrete,
    MultiBinary,
    MultiDiscrete,
    Sequence,
    flatten,
    flatten_space,
)
from gymnasium.vector import SyncVectorEnv
from gymnasium.vector.utils import batch_space
from tiny_envs import Menu, Unsupported

from nmn_keras import spaces

REAL = Box(-1.0, 1.0, (1,))


class Narrow(gymnasium.Env):
    """An action space whose bounds are no float32 numbers."""

    observation_space = Box(-1.0, 1.0, (1,), np.float64)

    def __init__(self, low, high):
        self.action_space = Box(np.array(low), np.array(high), dtype=np.float64)


def test_float32_bounds_lie_inside_a_float64_space():
    low, high = np.array([0.7, 0.1, -1.0, -np.inf]), np.array([1.1, 0.9, 1.0, np.inf])
    found = spaces.describe(Narrow(low, high))
    assert (np.float32(low) < low).any() and (np.float32(high) > high).any()  # some would lie outside
    assert found.action_low.dtype == found.action_high.dtype == np.float32
    assert (found.action_low.astype(float) >= low).all() and (found.action_high.astype(float) <= high).all()
    for rounded, bound in ((found.action_low, low), (found.action_high, high)):
        np.testing.assert_allclose(rounded, bound, rtol=2e-7)


def test_observations_become_rows_as_gymnasium_flattens_them():
    vector = SyncVectorEnv([Menu] * 3)
    found = spaces.describe(vector)
    batch, _ = vector.reset(seed=3)
    rows = found.rows(batch, vector.observation_space)
    singles = [Menu().reset(seed=3 + i)[0] for i in range(3)]
    expected = np.stack([flatten(Menu.observation_space, single) for single in singles])
    assert rows.dtype == np.float32 and rows.shape == (3, 14)
    np.testing.assert_array_equal(rows, expected.astype("float32"))
    np.testing.assert_array_equal(found.row(singles[1]), rows[1])
    assert (rows[:, :5] == [1, 0, 0, 1, 0]).all() and rows.std(axis=0).any()
    flat = flatten_space(Menu.observation_space)
    np.testing.assert_array_equal((found.observation_low, found.observation_high), (flat.low, flat.high))
    images = spaces.describe(SyncVectorEnv([lambda: Unsupported(Box(0, 255, (2, 3), np.uint8), REAL)]))
    picture = np.arange(6, dtype=np.uint8).reshape(1, 2, 3)
    np.testing.assert_array_equal(images.rows(picture, images.observation_space), [[0, 1, 2, 3, 4, 5]])


@pytest.mark.parametrize(
    ("space", "low", "high", "sizes", "rows"),
    [
        (Discrete(3, start=-1), [-1], [1], (3,), [[-1.0], [1.0]]),
        (MultiDiscrete([3, 2], start=[0, -1]), [0, -1], [2, 0], (3, 2), [[0.0, -1.0], [2.0, 0.0]]),
        (MultiDiscrete([[2, 3], [4, 5]]), [0] * 4, [1, 2, 3, 4], (2, 3, 4, 5), [[0.0] * 4, [1.0, 2.0, 3.0, 4.0]]),
        (MultiBinary((2, 2)), [0] * 4, [1] * 4, (2,) * 4, [[0.0, 1.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0]]),
        (Box(-1.0, 2.0, (2, 2), np.float64), [-1.0] * 4, [2.0] * 4, None, [[-1.0, 0.5, 2.0, 0.0], [0.0] * 4]),
        (Box(-1.0, 1.0, ()), [-1.0], [1.0], None, [[0.25], [-1.0]]),
    ],
)
def test_actions_reach_the_environment_in_its_own_form(space, low, high, sizes, rows):
    found = spaces.describe(Unsupported(Box(-1, 1, (1,)), space))
    np.testing.assert_array_equal((found.action_low, found.action_high), (low, high))
    assert found.action_sizes == sizes
    rows = np.float32(rows)
    singles, together = [found.action(row) for row in rows], found.actions(rows)
    assert batch_space(space, 2).contains(together)
    for single, row, one in zip(singles, rows, together, strict=True):
        assert space.contains(single)
        np.testing.assert_array_equal(np.ravel(single), row)
        np.testing.assert_array_equal(single, one)


@pytest.mark.parametrize(
    ("observation", "action", "message"),
    [
        (Sequence(Discrete(2)), REAL, "The observation space is not supported. Supported: spaces that gymnasium.sp"),
        (Box(0, 1, (0,)), REAL, "with at least one number of"),
        (REAL, Box(0, 9, (2,), np.int64), "The action space is not supported. Supported: a Box of floating-point nu"),
        (REAL, Dict({"a": REAL}), "Discrete, MultiDiscrete, MultiBinary. Received: Dict('a': Box"),
        (REAL, Discrete(2, start=2**24), "exact in float32, up to 2**24. Received: Discrete(2, start=16777216)"),
    ],
)
def test_other_spaces_are_refused(observation, action, message):
    with pytest.raises(ValueError) as caught:
        spaces.describe(Unsupported(observation, action))
    assert message in str(caught.value)
