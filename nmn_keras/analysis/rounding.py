"""Measured numbers as JSON holds them."""

from typing import Any

import numpy as np

DIGITS = 4


def plain(data: Any, digits: int = DIGITS) -> Any:
    """Give nested data as dictionaries with words for keys, lists, and numbers of so many digits that matter.

    NaN becomes None, which JSON has a word for.
    """
    if isinstance(data, dict):
        return {str(key): plain(value, digits) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [plain(value, digits) for value in data]
    if isinstance(data, np.ndarray | np.generic):
        return plain(data.tolist(), digits)
    if isinstance(data, float):
        return None if np.isnan(data) else float(f"{data:.{digits}g}")
    return data
