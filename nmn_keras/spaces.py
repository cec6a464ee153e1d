"""What of a Gymnasium environment the agents support: one-dimensional Box observations and actions, finite numbers."""

import dataclasses

import numpy as np
from gymnasium.spaces import Box


@dataclasses.dataclass(frozen=True)
class Spaces:
    """Sizes and bounds of an environment's spaces."""

    observation_low: np.ndarray
    """`(O,)`, infinite where unbounded."""
    observation_high: np.ndarray
    """`(O,)`, infinite where unbounded."""
    action_low: np.ndarray
    """`(A,)`, infinite where unbounded."""
    action_high: np.ndarray
    """`(A,)`, infinite where unbounded."""


def describe(env) -> Spaces:
    """Spaces of an environment or of one of a vector environment's copies.

    Raises:
        ValueError: if they are not one-dimensional Boxes, the action's of real numbers.
    """
    observation = getattr(env, "single_observation_space", env.observation_space)
    action = getattr(env, "single_action_space", env.action_space)
    for space, what in ((observation, "observation"), (action, "action")):
        if not isinstance(space, Box) or len(space.shape) != 1:
            raise ValueError(
                f"The {what} space is not supported. Supported: a Box with one axis, shape (n,) (Gymnasium's "
                f"FlattenObservation and RescaleAction wrappers help). Received: {space}"
            )
    if not np.issubdtype(action.dtype, np.floating):
        raise ValueError(
            f"The action space is not supported. Supported: a Box of floating-point numbers. Received: {action}"
        )
    with np.errstate(over="ignore"):  # bounds beyond float32 are as good as none
        return Spaces(
            np.asarray(observation.low, "float32"),
            np.asarray(observation.high, "float32"),
            _round_inward(action.low, np.inf),
            _round_inward(action.high, -np.inf),
        )


def _round_inward(bound, inside):
    """A bound in float32, moved one float inward where the nearest one lies outside of the space."""
    rounded = np.asarray(bound, "float32")
    outside = rounded < bound if inside > 0 else rounded > bound
    return np.where(outside & np.isfinite(bound), np.nextafter(rounded, np.float32(inside)), rounded)


def finite(array, what: str, step: int) -> np.ndarray:
    """What a vector environment gave, as float32.

    Args:
        array: `(N, ...)`.
        what: what to call it in the error.
        step: the step to name in the error.

    Raises:
        ValueError: if a number is not finite in float32.
    """
    with np.errstate(over="ignore"):  # what overflows in the cast is refused as not finite
        array = np.asarray(array, "float32")
    if not np.isfinite(array).all():
        rows = np.flatnonzero(~np.isfinite(array.reshape(len(array), -1)).all(axis=1)).tolist()
        raise ValueError(
            f"The environment gave a non-finite {what} at step {step} in environments {rows}; "
            f"finite numbers (after the cast to float32) are needed. Received: {array[rows[0]]}"
        )
    return array
