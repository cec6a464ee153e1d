"""The plane of benchmarks 2 and 3: a square without edges, directions, and where an agent reappears."""

import math
from collections.abc import Sequence
from types import ModuleType

import numpy as np

from nmn_keras.envs.dynamics.base import Array, Bounds

REACH = 2.0
"""Positions are in [-REACH, REACH]^2; who leaves at one edge comes in at the opposite one."""
TARGET_REACH = 1.0
"""Centres of targets are in [-TARGET_REACH, TARGET_REACH]^2."""
SPAWN_REACH = 1.5
"""An agent appears in [-SPAWN_REACH, SPAWN_REACH]^2."""
MAX_EXCLUSION = 1.0
"""Largest accepted `spawn_exclusion`."""
FAILURE = 1e-9
"""Probability below which no candidate for a place to appear is outside all exclusions."""

POSITION_BOUNDS = Bounds((-REACH, -REACH), (REACH, REACH))
DIRECTION_BOUNDS = Bounds((-1.0,), (1.0,))
"""One turn, in half-turns. An action outside is the direction that it is a whole number of turns away from."""


def direction(half_turns: Array, *, xp: ModuleType = np) -> Array:
    """Return unit vectors `(sin(pi a), cos(pi a))` (..., 2) of directions a (..., 1), any real numbers.

    As in the paper 0 points along the second axis and 0.5 along the first.
    """
    angle = math.pi * xp.mod(half_turns, 2.0)  # first: the period is then exact, also in float32
    return xp.concatenate([xp.sin(angle), xp.cos(angle)], axis=-1)


def wrap(position: Array, *, xp: ModuleType = np) -> Array:
    """Return positions (..., 2) that left the square by at most one side of it, back inside."""
    side = 2.0 * REACH
    return xp.where(position > REACH, position - side, xp.where(position < -REACH, position + side, position))


def distance(position: Array, target: Array, *, xp: ModuleType = np) -> Array:
    """Return Euclidean distances (..., 1) of positions (..., 2) from the centres of targets (..., 2).

    Not around the edges: no target reaches over one.
    """
    apart = xp.square(target - position)
    return xp.sqrt(apart[..., :1] + apart[..., 1:])  # numpy takes far longer to sum over an axis of two


def candidates(spawn_exclusion: float, targets: int) -> int:
    """Return how many places must be drawn for one of them to be good but with probability `FAILURE`.

    Args:
        spawn_exclusion: radius of the discs around targets in which no agent appears.
        targets: their number; the discs are taken to lie apart and inside, the worst case.
    """
    if spawn_exclusion == 0.0:
        return 1
    refused = targets * math.pi * spawn_exclusion**2 / (2.0 * SPAWN_REACH) ** 2
    return math.ceil(math.log(FAILURE) / math.log(refused))


def spawn(draws: Array, targets: Sequence[Array], exclusion: float, *, xp: ModuleType = np) -> Array:
    """Return positions (..., 2), uniform on the spawn square without discs around targets.

    The number of draws is fixed, so that a step compiles and seeds agree: the first candidate outside
    all discs is taken, and the last one wherever it is should there be none, see `candidates`.

    Args:
        draws: uniform numbers (..., 2 C), two for each of C candidates.
        targets: centres (..., 2).
        exclusion: radius of the discs.
        xp: the array module.
    """
    points = SPAWN_REACH * (2.0 * draws - 1.0)
    chosen = points[..., -2:]
    for column in range(points.shape[-1] - 4, -1, -2):
        candidate = points[..., column : column + 2]
        nearest = distance(candidate, targets[0], xp=xp)
        for target in targets[1:]:
            nearest = xp.minimum(nearest, distance(candidate, target, xp=xp))
        chosen = xp.where(nearest > exclusion, candidate, chosen)
    return chosen


def check_exclusion(spawn_exclusion: float) -> None:
    """Check a `spawn_exclusion`.

    Raises:
        ValueError: if it is not in [0, MAX_EXCLUSION].
    """
    if not 0.0 <= spawn_exclusion <= MAX_EXCLUSION:
        raise ValueError(
            "spawn_exclusion is not a radius that leaves room to appear. "
            f"Accepted: [0, {MAX_EXCLUSION:g}]. Received: {spawn_exclusion!r}"
        )
