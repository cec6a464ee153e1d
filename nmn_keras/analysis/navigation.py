"""What an agent does on benchmark 3: which target it makes for, which it hits, and which hits it could have avoided."""

import numpy as np
from numpy.typing import NDArray

from nmn_keras.envs.dynamics import plane

RUN = 10
"""Moves in a row that are looked at to say that an agent has settled on the right target."""
RIGHT = 9
"""How many of them must be nearer to the direction of the right target."""


def heads_right(positions: NDArray, tasks: NDArray, rewards: NDArray) -> NDArray:
    """Say of each move whether its direction is nearer to that of the good target than to that of the bad one.

    Directions are the shorter way, around the edges too.

    Args:
        positions: (T, N, 2), where each action found the agent.
        tasks: (N, 5).
        rewards: (T, N), of the actions.

    Returns:
        float (T - 1, N): 1 or 0; NaN where the agent did not move but appeared elsewhere, or is in a target.
    """
    positions = np.asarray(positions, float)
    move = plane.wrap(positions[1:] - positions[:-1])
    good, bad = (_unit(plane.wrap(centre - positions[:-1])) for centre in _targets(tasks))
    nearer = (move * good).sum(axis=-1) > (move * bad).sum(axis=-1)
    return np.where(rewards[:-1] == 0, nearer.astype(float), np.nan)


def settling_step(right: NDArray) -> NDArray:
    """Give the first step (N,) from which at least 9 of the next 10 moves head right; the number of steps if none does.

    Args:
        right: (T, N), of `heads_right`.
    """
    steps = np.empty(right.shape[1])
    for episode, column in enumerate(right.T):
        moved = np.flatnonzero(~np.isnan(column))
        sums = np.convolve(column[moved], np.ones(RUN), "valid")
        found = np.flatnonzero(sums >= RIGHT)
        steps[episode] = moved[found[0]] if len(found) else len(column)
    return steps


def hits(rewards: NDArray) -> dict[str, NDArray]:
    """Tell the hits apart, each bool (T, N): `good`, `bad`, and those `bad` into which an agent went by itself.

    An agent appears anywhere, so also in the bad target; such a hit it cannot avoid, and it is no `entered` one.

    Args:
        rewards: (T, N) from the first step of episodes on.
    """
    hit = rewards != 0
    appeared = np.concatenate([np.ones_like(hit[:1]), hit[:-1]])
    return {"good": rewards > 0, "bad": rewards < 0, "entered": (rewards < 0) & ~appeared}


def _targets(tasks):
    """The centres (N, 2) of the good and of the bad target."""
    first = tasks[:, 4:] > 0
    centres = tasks[:, :2], tasks[:, 2:4]
    return np.where(first, *centres), np.where(first, *centres[::-1])


def _unit(vectors):
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-9)
