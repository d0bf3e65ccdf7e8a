"""What an ordinary simulator returns, as one row of numbers."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from owlfi._tools.checks import brief, is_traced
from owlfi.problem.recorded_noise.errors import NotFromNoiseError

TO_ONE_LENGTH = "return summaries, or fill up to one length (with the last value, or 0)"
Row = np.ndarray | Exception
"""Numbers, or what was raised in their place."""


def as_row(y: Any) -> Any:
    """Numbers, arrays, tables, and lists, tuples, dicts, dataclasses of such, side by side: (d,).

    Raises ValueError for anything else.

    >>> as_row({"mean": 1.5, "path": [1, 2]})
    array([1.5, 1. , 2. ])
    """
    if is_traced(y):
        return jnp.concatenate([jnp.ravel(part) for part in _list_parts(y)])
    try:
        return np.concatenate([_as_numbers(part) for part in _list_parts(y)])
    except (ValueError, TypeError) as error:
        raise ValueError(
            "the function must return one row of real numbers, the same number of them at every "
            f"theta, got {brief(y)}; {_suggest_row(y)}"
        ) from error


def _suggest_row(y: Any) -> str:
    if y is None:
        return "end it with `return y`"
    if isinstance(y, Iterator):
        return "it yields: return a list of what it yields"
    if hasattr(y, "select_dtypes"):
        return "return its columns of numbers, table.select_dtypes('number')"
    return "return a number, a list or an array"


def _list_parts(y: Any) -> Iterator[Any]:
    """What is no list, tuple, dict or dataclass; lists of numbers as they are."""
    if is_dataclass(y):
        y = vars(y)
    if isinstance(y, Mapping):
        y = list(y.values())
    if isinstance(y, list | tuple) and (is_traced(y) or any(map(_has_entries, y))):
        for part in y:
            yield from _list_parts(part)
    else:
        yield y


def _has_entries(part: Any) -> bool:
    return (
        isinstance(part, Mapping | list | tuple)
        or getattr(part, "ndim", 0) > 0
        or is_dataclass(part)
    )


def _as_numbers(part: Any) -> np.ndarray:
    if part is None:
        raise ValueError("nothing")
    if isinstance(part, np.ma.MaskedArray):  # whose mask an array would forget
        part = np.where(np.ma.getmaskarray(part), np.nan, part.data)
    numbers = np.asarray(part)
    if numbers.dtype.kind not in "biufO" or numbers.size == 0:
        raise ValueError("no real numbers")
    if numbers.dtype.kind == "O" and any(e is None or isinstance(e, str) for e in numbers.flat):
        raise ValueError("nothing, or text")
    return numbers.astype(float).ravel()


def try_row(run: Callable[..., np.ndarray], *arguments: Any) -> Row:
    """What it gives or raises; what cannot be taken from u is raised at once."""
    try:
        return run(*arguments)
    except NotFromNoiseError:
        raise
    except Exception as error:  # whatever it is, other rows may do
        return error


def join_rows(rows: list[Row]) -> np.ndarray:
    """Rows (m, d), NaN where one was not to be had; raises the first error where none was.

    NotFromNoiseError where they are not of one length, which dry runs may not have met.
    """
    fine = [row for row in rows if isinstance(row, np.ndarray)]
    if not fine:
        raise next(row for row in rows if isinstance(row, Exception))
    lengths = sorted({len(row) for row in fine})
    if len(lengths) > 1:
        raise NotFromNoiseError(
            f"the function must return as many numbers in every run, got rows of {lengths[0]} "
            f"and of {lengths[-1]}; {TO_ONE_LENGTH}"
        )
    failed = np.full_like(fine[0], np.nan)
    return np.stack([row if isinstance(row, np.ndarray) else failed for row in rows])
