"""Periodic quantities as points on the unit circle."""

import math

from keras import ops


def circle(x, period):
    """Cosines, then sines of `x` `(..., n)` in periods: `(..., 2n)`; nothing jumps where a period ends."""
    angle = x * (2.0 * math.pi / period)
    return ops.concatenate([ops.cos(angle), ops.sin(angle)], axis=-1)
