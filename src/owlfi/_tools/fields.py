"""The fields of results and designs: whether they have the types and shapes that are annotated."""

from collections.abc import Callable
from dataclasses import fields
from functools import lru_cache, partial
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import jax
import jax.numpy as jnp
import numpy as np

from owlfi._tools.checks import as_count, as_kind, as_names, as_numbers, as_truth, brief

_MOST_CALLS = 2**63 - 1
_SHARES = ("level", "p_value")
_KINDS: dict[Any, Any] = {float: float | int, int: int | np.integer}


def read_fields(result: Any) -> dict[str, Any]:
    """The fields of a result by name, arrays made of whatever numbers were given.

    Raises ValueError for anything else, and for shapes that do not fit together.
    """
    hints = _find_hints(result.__class__)
    sizes, found = {"p": len(as_names("names", result.names))}, {}
    for name, hint in hints.items():
        value = getattr(result, name)
        if value is None and fits(None, hint, {}):
            continue
        if not _is_array(hint):
            found[name] = _find_reader(hint)(name, value)
            continue
        found[name] = value if _is_float(value) else as_numbers(name, value)
        check_value(name, found[name], hint, sizes)
    return found


def check_fields(module: Any) -> None:
    """ValueError for fields of a module that are of other types, or do not fit together."""
    sizes: dict[str, Any] = {}
    for name, hint in _find_hints(module.__class__).items():
        check_value(name, getattr(module, name), hint, sizes)


@lru_cache
def _find_hints(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def _is_array(hint: Any) -> bool:
    return any(hasattr(one, "dim_str") for one in (hint, *get_args(hint)))


def _as_plain(name: str, value: Any) -> float:
    """A number, perhaps NaN."""
    number = as_numbers(name, value)
    if number.ndim:
        raise ValueError(f"{name} must be one number, got {brief(value)}")
    if name in _SHARES and (number < 0 or number > 1):
        raise ValueError(f"{name} must lie between 0 and 1, got {brief(value)}")
    return float(number)


_READERS: dict[Any, Callable[[str, Any], Any]] = {
    tuple[str, ...]: as_names,
    dict[str, Any]: partial(as_kind, kind=dict, expected="a dictionary"),
    int: partial(as_count, least=0, most=_MOST_CALLS),
    bool: as_truth,
    float: _as_plain,
}


def _find_reader(hint: Any) -> Callable[[str, Any], Any]:
    """Of an annotation that is no array's, or of the first of several."""
    return _READERS[hint if hint in _READERS else get_args(hint)[0]]


def _is_float(value: Any) -> bool:
    floats = isinstance(value, jax.Array | np.ndarray) and jnp.issubdtype(value.dtype, jnp.floating)
    return floats and value.dtype.isnative


def check_value(name: str, value: Any, hint: Any, sizes: dict[str, Any]) -> None:
    """ValueError for a value of another type, or an array that does not fit the others."""
    if not fits(value, hint, sizes):
        found = getattr(value, "shape", None) or brief(value)
        raise ValueError(f"{name} must be {_describe(hint)}, got {found}")


def _describe(hint: Any) -> str:
    axes = next((one.dim_str for one in (hint, *get_args(hint)) if hasattr(one, "dim_str")), None)
    if axes is None:
        return f"of type {getattr(hint, '__name__', hint)}"
    return f"numbers of shape ({', '.join(axes.split())}), the same sizes in all arrays"


def fits(value: Any, hint: Any, sizes: dict[str, Any]) -> bool:
    """Whether a value is of a type; arrays by the sizes of their axes, which are noted by name."""
    if get_origin(hint) in (Union, UnionType):
        return any(fits(value, one, sizes) for one in get_args(hint))
    if not hasattr(hint, "dim_str"):
        if isinstance(value, bool | np.bool_):
            return hint is bool
        return isinstance(value, _KINDS.get(hint) or get_origin(hint) or hint)
    if not _is_array_of(value, hint):
        return False
    axes = hint.dim_str.split()
    leading = value.ndim - len(axes) + 1 if axes[:1] == ["..."] else 0
    shape = (value.shape[:leading], *value.shape[leading:]) if axes[:1] == ["..."] else value.shape
    if leading < 0 or len(shape) != len(axes):
        return False
    known = [int(axis) if axis.isdigit() else sizes.get(axis) for axis in axes]
    sizes |= {axis: size for axis, size in zip(axes, shape, strict=True) if axis not in sizes}
    return all(size in (None, n) for size, n in zip(known, shape, strict=True))


def _is_array_of(value: Any, hint: Any) -> bool:
    if hint.__name__.startswith("Float"):
        return _is_float(value)
    return isinstance(value, jax.Array | np.ndarray) and jnp.issubdtype(value.dtype, jnp.integer)
