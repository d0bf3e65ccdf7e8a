"""What an ordinary simulator returns, as one row of numbers."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from owlfi._tools.checks import brief, is_traced


def as_row(y: Any) -> Any:
    """Numbers, lists, arrays, tables, or a dict of such, side by side: (d,).

    Raises ValueError for anything else.

    >>> as_row({"mean": 1.5, "path": [1, 2]})
    array([1.5, 1. , 2. ])
    """
    parts = list(y.values()) if isinstance(y, Mapping) else [y]
    if is_traced(parts):
        return jnp.concatenate([jnp.ravel(_stack(part)) for part in parts])
    return np.concatenate([_as_numbers(y, part).ravel() for part in parts])


def _stack(part: Any) -> Any:
    return jnp.stack([_stack(entry) for entry in part]) if isinstance(part, list | tuple) else part


def _as_numbers(y: Any, part: Any) -> np.ndarray:
    try:
        if part is None:
            raise ValueError("nothing")
        numbers = np.asarray(part)
        if numbers.dtype.kind not in "biufO" or numbers.size == 0:
            raise ValueError("no real numbers")
        if numbers.dtype.kind == "O" and any(isinstance(entry, str) for entry in numbers.flat):
            raise ValueError("text")
        return numbers.astype(float)
    except (ValueError, TypeError) as error:
        end = "end it with `return y`" if y is None else "return a number, a list or an array"
        raise ValueError(
            "the function must return one row of real numbers, the same number of them at every "
            f"theta, got {brief(y)}; {end}"
        ) from error
