"""What of a Gymnasium environment the agents support, and the one place where its forms become rows of numbers.

Observations of any space that Gymnasium flattens to a fixed length are rows `(N, O)` of float32, as
`gymnasium.spaces.flatten` writes them. Actions are rows `(N, A)` of float32: real numbers, or the number of a choice.
"""

import dataclasses
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Space, flatten, flatten_space
from gymnasium.vector.utils import iterate


@dataclasses.dataclass(frozen=True)
class Spaces:
    """Sizes and bounds of an environment's spaces, and how to speak to it."""

    observation_low: np.ndarray
    """`(O,)`, flattened, infinite where unbounded."""
    observation_high: np.ndarray
    """`(O,)`, flattened, infinite where unbounded."""
    action_low: np.ndarray
    """`(A,)`, infinite where unbounded; the first choice of a discrete action."""
    action_high: np.ndarray
    """`(A,)`, infinite where unbounded; the last choice of a discrete action."""
    action_sizes: tuple[int, ...] | None
    """Number of choices of each action dimension; None where actions are real numbers."""
    observation_space: Space
    """Of one environment."""
    action_space: Space
    """Of one environment."""

    def check_fit(
        self,
        observation_size: int,
        action_size: int,
        action_sizes: tuple[int, ...] | None,
        bounds: tuple[np.ndarray, np.ndarray],
    ) -> None:
        """Raise `ValueError` unless an agent of these sizes and action bounds can be played here."""
        sizes = (len(self.observation_low), len(self.action_low))
        if sizes != (observation_size, action_size):
            raise ValueError(
                "The environment does not fit the agent: it needs observation and action sizes "
                f"{(observation_size, action_size)}. Received: {sizes}"
            )
        if self.action_sizes != action_sizes:
            raise ValueError(
                f"The environment does not fit the agent, whose numbers of choices are {action_sizes} (None: actions "
                f"are real numbers). Received: {self.action_sizes}"
            )
        low, high = bounds
        if (low < self.action_low).any() or (high > self.action_high).any():
            raise ValueError(
                f"The agent's action bounds exceed the environment's, {self.action_low} to {self.action_high}. "
                f"Received: {low} to {high}"
            )

    def row(self, observation: Any) -> np.ndarray:
        """Flatten one environment's observation: float32 `(O,)`, a copy."""
        with np.errstate(over="ignore"):  # whoever needs finite numbers checks them
            return np.array(flatten(self.observation_space, observation), "float32").ravel()

    def rows(self, observations: Any, space: Space) -> np.ndarray:
        """Flatten what a vector environment observes: float32 `(N, O)`, a copy.

        Args:
            observations: of N environments, batched as Gymnasium does it.
            space: the vector environment's `observation_space`.
        """
        if isinstance(self.observation_space, Box):  # what the rest does, at once
            with np.errstate(over="ignore"):
                array = np.array(observations, "float32")
            return array.reshape(len(array), -1)
        return np.stack([self.row(observation) for observation in iterate(space, observations)])

    def action(self, row: np.ndarray) -> Any:
        """What one environment is given for an action `(A,)`: a number or an array of its space's type and shape."""
        array = self._typed(row).reshape(self.action_space.shape or ())
        return array[()] if isinstance(self.action_space, Discrete) else array

    def actions(self, rows: np.ndarray) -> np.ndarray:
        """What a vector environment is given for actions `(N, A)`."""
        return self._typed(rows).reshape(len(rows), *(self.action_space.shape or ()))

    def _typed(self, rows):
        rows, dtype = np.asarray(rows), np.dtype(self.action_space.dtype)
        if self.action_sizes is None:  # a policy of more digits than the space keeps them
            return rows.astype(dtype) if np.can_cast(rows.dtype, dtype) else rows
        return np.rint(rows).astype(dtype)


def describe(env) -> Spaces:
    """Spaces of an environment or of one of a vector environment's copies.

    Raises:
        ValueError: if observations have no fixed length, or actions are neither a Box of real numbers nor Discrete,
            MultiDiscrete or MultiBinary.
    """
    observation = getattr(env, "single_observation_space", env.observation_space)
    action = getattr(env, "single_action_space", env.action_space)
    flat = flatten_space(observation)
    if not isinstance(flat, Box) or flat.shape == (0,):
        raise ValueError(
            "The observation space is not supported. Supported: spaces that gymnasium.spaces.flatten_space makes a Box "
            f"with at least one number of (Box, Discrete, MultiBinary, Dict, Tuple ...). Received: {observation}"
        )
    low, high, sizes = _action_bounds(action)
    with np.errstate(over="ignore"):  # bounds beyond float32 are as good as none
        return Spaces(
            np.asarray(flat.low, "float32"),
            np.asarray(flat.high, "float32"),
            _round_inward(low, np.inf),
            _round_inward(high, -np.inf),
            sizes,
            observation,
            action,
        )


def _action_bounds(space) -> tuple[np.ndarray, np.ndarray, tuple[int, ...] | None]:
    """Bounds `(A,)` and, of a discrete space, numbers of choices."""
    real = isinstance(space, Box) and np.issubdtype(space.dtype, np.floating)
    if real and space.low.size:
        return space.low.ravel(), space.high.ravel(), None
    if isinstance(space, Discrete):
        first, sizes = np.array([space.start]), np.array([space.n])
    elif isinstance(space, MultiDiscrete):
        first, sizes = space.start.ravel(), space.nvec.ravel()
    elif isinstance(space, MultiBinary):
        first, sizes = np.zeros(np.prod(space.shape), int), np.full(np.prod(space.shape), 2)
    else:
        raise ValueError(
            "The action space is not supported. Supported: a Box of floating-point numbers, Discrete, MultiDiscrete, "
            f"MultiBinary. Received: {space}"
        )
    last = first + sizes - 1
    if max(np.abs(first).max(), np.abs(last).max()) > 2**24:
        raise ValueError(
            "The action space is not supported. Supported: choices whose numbers are exact in float32, up to 2**24. "
            f"Received: {space}"
        )
    return first, last, tuple(int(size) for size in sizes)


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
    given = np.asarray(array)
    with np.errstate(over="ignore"):  # what overflows in the cast is refused as not finite
        array = np.asarray(given, "float32")
    if not np.isfinite(array).all():
        rows = np.flatnonzero(~np.isfinite(array.reshape(len(array), -1)).all(axis=1)).tolist()
        raise ValueError(
            f"The environment gave a non-finite {what} at step {step} in environments {rows}; "
            f"finite numbers (after the cast to float32) are needed. Received: {given[rows[0]]}"
        )
    return array
