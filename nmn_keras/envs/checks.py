"""Checks of what a user passes to an environment."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nmn_keras.envs.dynamics import Bounds

RENDER_MODES = ("rgb_array",)


def finite_array(value: ArrayLike, shape: tuple[int, ...], name: str) -> NDArray[np.float64]:
    """Return a float64 copy of `value`.

    Args:
        value: what the user passed.
        shape: the only accepted shape.
        name: how error messages call it.

    Raises:
        TypeError: if it is not made of numbers.
        ValueError: if its shape differs or a number is not finite.
    """
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name} is not made of numbers. An array of shape {shape} is accepted. Received: {value!r}"
        ) from error
    if array.shape != shape:
        raise ValueError(f"{name} has the wrong shape. {shape} is accepted. Received: shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} is not finite. Finite numbers are accepted. Received: {array}")
    return array


def bounded_array(value: ArrayLike, bounds: Bounds, batch: tuple[int, ...], name: str) -> NDArray[np.float64]:
    """Return `value` as float64 of shape (*batch, size of the bounds), repeated where it must be.

    Args:
        value: one vector for all environments or one each; the last axis may be left out where a
            vector has one component.
        bounds: limits, inclusive.
        batch: () or (N,).
        name: how error messages call it.

    Raises:
        TypeError: if it is not made of numbers.
        ValueError: if its shape differs or a number is outside the bounds or, of two values, none.
    """
    size = bounds.size
    whole = [(size,), (*batch, size)]
    without_last = [(), batch] if size == 1 else []
    shape = np.shape(value)
    if shape not in whole + without_last:
        accepted = " or ".join(map(str, dict.fromkeys(whole + without_last)))
        raise ValueError(f"{name} has the wrong shape. Accepted: {accepted}. Received: shape {shape}")
    array = finite_array(value, shape, name)
    if shape not in whole:
        array = array[..., np.newaxis]
    if (array < bounds.low).any() or (array > bounds.high).any():
        raise ValueError(
            f"{name} is out of range. Accepted: {list(bounds.low)} to {list(bounds.high)}. Received: {value!r}"
        )
    for component in bounds.two_valued:
        limits = (bounds.low[component], bounds.high[component])
        if not np.isin(array[..., component], limits).all():
            raise ValueError(
                f"{name} has a component that takes two values only. Accepted as component {component}: "
                f"{limits[0]:g} or {limits[1]:g}. Received: {value!r}"
            )
    return np.broadcast_to(array, (*batch, size)).copy()


def check_names(options: Mapping[str, Any], accepted: tuple[str, ...]) -> None:
    """Refuse reset options that no environment here knows.

    Raises:
        ValueError: naming the known ones.
    """
    unknown = sorted(set(options) - set(accepted))
    if unknown:
        raise ValueError(f"Unknown reset options. Known: {', '.join(accepted)}. Received: {', '.join(unknown)}")


def check_settings(max_episode_steps: int | None, render_mode: str | None) -> None:
    """Check what all constructors here share.

    Raises:
        ValueError: if a value is not accepted.
    """
    if max_episode_steps is not None and max_episode_steps < 1:
        raise ValueError(
            f"An episode has at least one step. max_episode_steps is accepted from 1. Received: {max_episode_steps!r}"
        )
    if render_mode is not None and render_mode not in RENDER_MODES:
        raise ValueError(
            f"Unknown render_mode. Accepted: None, {', '.join(map(repr, RENDER_MODES))}. Received: {render_mode!r}"
        )


def check_num_envs(num_envs: int) -> None:
    """Check a number of environments.

    Raises:
        ValueError: if it is not a whole number from 1.
    """
    if not isinstance(num_envs, (int, np.integer)) or num_envs < 1:
        raise ValueError(
            f"num_envs is not a number of environments. A whole number from 1 is accepted. Received: {num_envs!r}"
        )


def reset_mask(value: ArrayLike | None, num_envs: int) -> NDArray[np.bool_]:
    """Return the option "reset_mask" as an array (N,); None means all.

    Raises:
        TypeError: if it is not made of booleans.
        ValueError: if it has another shape or no True.
    """
    mask = np.ones(num_envs, np.bool_) if value is None else np.asarray(value)
    if mask.dtype != np.bool_:
        raise TypeError(f"reset_mask is not made of booleans. dtype bool is accepted. Received: {mask.dtype}")
    if mask.shape != (num_envs,) or not mask.any():
        raise ValueError(f"reset_mask must have shape {(num_envs,)} and at least one True. Received: {mask}")
    return mask
