import gymnasium
import numpy as np
from gymnasium.spaces import Box

from nmn_keras import spaces


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
