"""Rewards and ends of episodes as environments give them: numbers, or arrays of one number each."""

import decimal
import numbers as abstract
from typing import Any

import numpy as np

_NUMERIC = "biuf"
"""Kinds of numpy types whose values are real numbers."""


class NotOneNumber(ValueError):
    """A reward or a flag is not one number.

    Attributes:
        environment: index of the environment that gave it, None where it cannot be told.
    """

    environment: int | None = None


def number(value: Any, what: str = "reward") -> float:
    """One number: of Python, of numpy, or an array of any shape that holds one.

    Args:
        value: what an environment gave; it may be infinite or not a number.
        what: what to call it in the error.

    Raises:
        NotOneNumber: if it is anything else, or a whole number beyond float64.
    """
    if type(value) is float:
        return value
    cause: Exception | None = None
    try:
        array = np.asarray(value)
        item = array.item() if array.size == 1 else None
        if array.dtype.kind in _NUMERIC and item is not None:
            return float(item)
        if isinstance(item, abstract.Real | decimal.Decimal):
            return float(item)
    except (TypeError, ValueError, OverflowError) as error:
        cause = error
    raise NotOneNumber(
        f"The {what} is not one number. Accepted is a number that float64 can hold, or an array of one. "
        f"Received: {_shortened(value)}"
    ) from cause


def flag(value: Any, what: str = "terminated") -> bool:
    """Whether a flag is set: a boolean, a number, or an array of one of these.

    Args:
        value: what an environment gave.
        what: what to call it in the error.

    Raises:
        NotOneNumber: if it is anything else, or not a number (NaN).
    """
    if type(value) is bool:
        return value
    try:
        found = number(value, what)
    except NotOneNumber:
        found = np.nan
    if np.isnan(found):
        raise NotOneNumber(
            f"`{what}` is not one flag. Accepted is a boolean, or an array of one. Received: {_shortened(value)}"
        )
    return bool(found)


def numbers(values: Any, n: int, what: str = "reward") -> np.ndarray:
    """One number of each of N environments, `(N,)`; what is that already stays as it is.

    Args:
        values: what a vector environment gave, such as `(N,)`, `(N, 1)` or a list.
        n: N.
        what: what to call one of them in the error.

    Raises:
        NotOneNumber: naming the environment, where there is one to name.
    """
    return _each(number, values, n, what)


def flags(values: Any, n: int, what: str = "terminated") -> np.ndarray:
    """One flag of each of N environments, `(N,)` of booleans; see `numbers`."""
    return _each(flag, values, n, what).astype(bool)


def _each(read, values, n, what):
    try:
        array = np.asarray(values)
    except ValueError:  # rows of unlike lengths
        array = np.empty(0, object)
    plain = "b" if read is flag else _NUMERIC
    if array.dtype.kind in plain and array.size == n and array.shape[:1] in ((n,), ()):
        return array.reshape(n)
    rows = values if hasattr(values, "__len__") and np.ndim(array) else [values]
    if len(rows) != n:
        raise NotOneNumber(
            f"There is not one `{what}` for each environment. Accepted is an array of shape ({n},). "
            f"Received: {_shortened(values)}"
        )
    return np.array([_named(read, row, what, i) for i, row in enumerate(rows)])


def _named(read, value, what, i):
    try:
        return read(value, what)
    except NotOneNumber as error:
        error.environment = i
        raise


def _shortened(value):
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
