"""Steps: arrays into messages, answers into arrays."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Step:
    """What the server answered to a step. float32; where `batch` is N above 1, N rows of each."""

    action: np.ndarray
    """(A,), environment units: the action to play."""
    step: int
    """Steps taken since the session was opened or reset."""
    z: np.ndarray | None = None
    """(Z,): the neuromodulatory signal, if it was asked for and the agent has one."""
    action_mean: np.ndarray | None = None
    """(A,), network units: the policy's mean, if it was asked for."""
    action_log_std: np.ndarray | None = None
    """(A,), network units: the logarithm of its standard deviation, if it was asked for."""
    logits: np.ndarray | None = None
    """A number for each choice of a discrete action, one dimension after the other, if it was asked for."""


INCLUDABLE = tuple(field.name for field in fields(Step) if field.name not in ("action", "step"))


def read_step(answer: Mapping[str, Any]) -> Step:
    """Return the step that an answer tells."""
    arrays = {name: np.asarray(answer[name], np.float32) for name in ("action", *INCLUDABLE) if name in answer}
    return Step(step=answer["step"], **arrays)


def numbers(name: str, value: ArrayLike, shape: tuple[int, ...]) -> Any:
    """Return an argument as the JSON numbers of its message.

    Raises:
        ValueError: it has another shape, or is not finite as float32.
    """
    accepted = f"Accepted is {f'float32 of shape {shape}' if shape else 'one number'}"
    try:
        with np.errstate(over="ignore"):  # what overflows in the cast is refused as not finite
            array = np.asarray(value, np.float32)
    except (TypeError, ValueError) as error:
        raise ValueError(f"`{name}` is not made of numbers. {accepted}. Received: {value!r}") from error
    if array.shape != shape:
        raise ValueError(f"`{name}` has the wrong shape. {accepted}. Received: shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"`{name}` must be finite. {accepted}. Received: {array[~np.isfinite(array)][0]}")
    return array.tolist()
