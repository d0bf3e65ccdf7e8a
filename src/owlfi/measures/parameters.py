"""The parameters of a family: one number a coordinate, and the ends they give its support."""

from contextlib import nullcontext
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from owlfi._tools.arrays import as_jax, numpy_for
from owlfi._tools.checks import as_array, as_count, is_traced

Coordinates = Float[Array, " s"]
Ends = tuple[Coordinates, Coordinates]


def coordinates(dim: Any, **parameters: Any) -> list[Coordinates]:
    """Parameters as arrays of one shape (dim,); dim is read from them where it is not given."""
    arrays = {}
    for name, value in parameters.items():
        array = arrays[name] = as_array(name, value)
        if array.ndim > 1:
            raise ValueError(
                f"{name} must be a number or one a coordinate, got shape {array.shape}"
            )
        if array.size == 0:
            raise ValueError(f"{name} is empty; give one number, or one a coordinate")
    sizes = {array.shape[0] for array in arrays.values() if array.ndim}
    size = as_count("dim", dim) if dim is not None else max(sizes, default=1)
    if not sizes <= {1, size}:
        entries = ", ".join(f"{name} has {a.shape[0]}" for name, a in arrays.items() if a.ndim)
        raise ValueError(
            f"each parameter must have one entry or dim = {size} of them, but {entries}"
        )
    with nullcontext() if is_traced(parameters) else jax.ensure_compile_time_eval():
        numpy = numpy_for(parameters)
        return [as_jax(numpy.broadcast_to(array, (size,))) for array in arrays.values()]


def check_order(low: Array, high: Array) -> None:
    """Raises ValueError where an interval is empty; of numbers that can be seen."""
    if not is_traced(low, high) and not (np.asarray(low) < np.asarray(high)).all():
        raise ValueError(f"low must be below high, got low={low} and high={high}")
