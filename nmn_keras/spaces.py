"""What of a Gymnasium environment the agents support: one-dimensional Box observations and actions."""

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
    bounds = (observation.low, observation.high, action.low, action.high)
    return Spaces(*(np.asarray(bound, "float32") for bound in bounds))
