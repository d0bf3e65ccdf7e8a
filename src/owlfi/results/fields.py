"""The fields of results: whether arrays have the types and shapes of their annotations."""

from dataclasses import fields
from functools import lru_cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import jax
import jax.numpy as jnp
import numpy as np

from owlfi._tools.checks import as_numbers


def read_arrays(result: Any) -> dict[str, Any]:
    """The arrays of a result by name, made of whatever numbers were given.

    Raises ValueError for anything else, and for shapes that do not fit together.
    """
    sizes, found = {"p": len(result.names)}, {}
    for name, hint in _find_arrays(result.__class__).items():
        value = getattr(result, name)
        if value is None and fits(None, hint, {}):
            continue
        found[name] = value if _is_float(value) else as_numbers(name, value)
        check_value(name, found[name], hint, sizes)
    return found


@lru_cache
def _find_arrays(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    named = {field.name: hints[field.name] for field in fields(kind)}
    return {name: hint for name, hint in named.items() if "dim_str" in _attributes(hint)}


def _attributes(hint: Any) -> set[str]:
    return {name for one in (hint, *get_args(hint)) for name in dir(one)}


def _is_float(value: Any) -> bool:
    return isinstance(value, jax.Array | np.ndarray) and jnp.issubdtype(value.dtype, jnp.floating)


def check_value(name: str, value: Any, hint: Any, sizes: dict[str, int]) -> None:
    """ValueError for a value of another type, or an array that does not fit the others."""
    if not fits(value, hint, sizes):
        found = getattr(value, "shape", None) or type(value).__name__
        raise ValueError(f"{name} must be {_describe(hint)}, got {found}")


def _describe(hint: Any) -> str:
    axes = next((one.dim_str for one in (hint, *get_args(hint)) if hasattr(one, "dim_str")), None)
    if axes is None:
        return str(hint)
    return f"numbers of shape ({', '.join(axes.split())}), the same sizes in all arrays"


def fits(value: Any, hint: Any, sizes: dict[str, int]) -> bool:
    """Whether a value is of a type; arrays by the sizes of their axes, which are noted by name."""
    if get_origin(hint) in (Union, UnionType):
        return any(fits(value, one, sizes) for one in get_args(hint))
    if not hasattr(hint, "dim_str"):
        if isinstance(value, bool):
            return hint is bool
        return isinstance(value, (float, int) if hint is float else get_origin(hint) or hint)
    axes = hint.dim_str.split()
    if not _is_float(value) or value.ndim != len(axes):
        return False
    known = [int(axis) if axis.isdigit() else sizes.get(axis) for axis in axes]
    sizes |= {axis: size for axis, size in zip(axes, value.shape, strict=True) if axis not in sizes}
    return all(size in (None, n) for size, n in zip(known, value.shape, strict=True))
