"""How a hidden parameter is drawn: laws as JSON can write them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

LAWS = (
    "a number, [low, high] (uniform), {'uniform': [low, high]}, {'log_uniform': [low, high]}, {'choice': [...]}, or "
    "{'scale': one of these}, which multiplies the value that the environment has; with 'each': true beside it every "
    "element of an array is drawn by itself"
)


@dataclass(frozen=True)
class Law:
    """A distribution of one number.

    Args:
        kind: "uniform", "log_uniform" or "choice".
        numbers: low and high, or the choices.
    """

    kind: str
    numbers: tuple[float, ...]

    def quantile(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """The numbers for uniform ones in [0, 1)."""
        if self.kind == "choice":
            return np.asarray(self.numbers)[(u * len(self.numbers)).astype(int)]
        low, high = self._axis(np.asarray(self.numbers))
        drawn = low + (high - low) * u
        return np.exp(drawn) if self.kind == "log_uniform" else drawn

    def normalise(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """-1 at the least number, 1 at the greatest, on the law's own axis; 0 where there is one alone."""
        low, high = self._axis(np.array([min(self.numbers), max(self.numbers)]))
        if high == low:
            return self._axis(values) - low
        return 2.0 * (self._axis(values) - low) / (high - low) - 1.0

    def _axis(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.log(values) if self.kind == "log_uniform" else values


@dataclass(frozen=True)
class Draw:
    """A law, and what its numbers mean."""

    law: Law
    scale: bool
    """Whether they are factors on the value that the environment has."""
    each: bool
    """Whether every element of an array is drawn by itself."""


def read_draw(entry: Any, path: str) -> Draw:
    """Read a parameter's entry.

    Raises:
        ValueError: if it is not one of `LAWS`.
    """
    scale = each = False
    law = entry
    if isinstance(entry, dict):
        law = dict(entry)
        each = law.pop("each", False)
        scale = "scale" in law
        law = law["scale"] if set(law) == {"scale"} else law
        if not isinstance(each, bool):
            raise _refused(path, entry, "`each` is true or false")
    return Draw(read_law(law, path), scale, each)


def read_law(entry: Any, path: str) -> Law:
    """Read a law.

    Raises:
        ValueError: if it is none.
    """
    kind: Any = "uniform"
    numbers = entry
    if isinstance(entry, dict):
        if len(entry) != 1 or next(iter(entry)) not in ("uniform", "log_uniform", "choice"):
            raise _refused(path, entry, "a law has one name")
        kind, numbers = next(iter(entry.items()))
    elif isinstance(entry, int | float | np.number):
        kind, numbers = "choice", [entry]
    try:
        given = tuple(float(number) for number in numbers if not isinstance(number, str | bool))
    except (TypeError, ValueError) as error:
        raise _refused(path, entry, "numbers are needed") from error
    if len(given) != len(numbers) or not given or not np.isfinite(given).all():
        raise _refused(path, entry, "finite numbers are needed")
    if kind != "choice" and (len(given) != 2 or given[0] > given[1]):
        raise _refused(path, entry, "low and high are needed, low first")
    if kind == "log_uniform" and given[0] <= 0.0:
        raise _refused(path, entry, "numbers above 0 are needed")
    return Law(kind, given)


def _refused(path: str, entry: Any, why: str) -> ValueError:
    return ValueError(f"Not a way to draw `{path}`: {why}. Accepted: {LAWS}. Received: {entry!r}")
