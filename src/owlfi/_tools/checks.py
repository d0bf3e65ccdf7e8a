"""The edge of the library: what users bring becomes a double array, or a clear error."""

import errno
import operator
import os
from pathlib import Path
from types import UnionType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from owlfi._tools.forks import refuse_after_fork

MOST_COUNT = 10**7
"""Of anything that is kept in memory."""
MOST_NUMBERS = 2**27
"""In one array: a gigabyte."""
_MOST_AXES = 64  # of NumPy's arrays
_SYMMETRIC = 1e-8  # relative, of matrices
_NESTED = list, tuple, dict


def is_traced(*values: Any) -> bool:
    """Whether any value is abstract (inside jit, vmap or grad), so that it cannot be inspected."""
    if _is_deep(values):
        return False  # and no array; JAX would fail for good
    leaves = jax.tree.leaves(values, is_leaf=lambda leaf: hasattr(leaf, "__next__"))
    return any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)


def _is_deep(values: Any) -> bool:
    """Whether there are lists in lists beyond the axes of any array."""
    level = [values]
    for _ in range(_MOST_AXES):
        inside = (each.values() if isinstance(each, dict) else each for each in level)
        level = [value for each in inside for value in each if isinstance(value, _NESTED)]
        if not level:
            return False
    return True


def concrete(tree: PyTree) -> PyTree:
    """A measure as plain numbers, which grad alone does not hide but jit and vmap do."""
    numbers = jax.lax.stop_gradient(tree) if is_traced(tree) else tree
    if is_traced(numbers):
        raise ValueError(
            f"the embedding of {type(tree).__name__} by this kernel has no closed form and needs "
            "the numbers of the measure; build the measure outside jit and vmap"
        )
    return numbers


def fails_in_jax(function: Any, *shapes: jax.ShapeDtypeStruct) -> bool:
    """Whether a user's function cannot be traced, and runs on the host; NameError as it is."""
    try:
        jax.eval_shape(function, *shapes)
    except NameError:  # no kind of array would help
        raise
    except Exception:  # whatever it is, the host will meet it again and show it
        return True
    return False


def as_array(name: str, value: Any) -> Float[Array, "..."]:
    """A finite float64 array from an array, a list, a number or a pandas object."""
    if is_traced(value):
        return jnp.asarray(value, float)
    refuse_after_fork()
    array = as_numbers(name, value)
    if not np.isfinite(array).all():
        if not array.ndim:
            raise ValueError(f"{name} must be a finite number, got {value}")
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(
            f"{name} has a value that is NaN or infinite (the first at index {where}); "
            "remove or replace such values"
        )
    with jax.ensure_compile_time_eval():  # constants stay numbers inside jit, too
        if isinstance(value, jax.Array):
            return jnp.asarray(value, float)
        return jax.device_put(np.array(array))  # a copy: the user may change theirs


def as_floats(name: str, value: Any) -> Float[Array, "..."]:
    """The same, but that JAX's own numbers, which programs pass on, are not looked at."""
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jnp.floating):
        return value.astype(float)
    return as_array(name, value)


def as_numbers(name: str, value: Any) -> np.ndarray:
    """Real numbers, of which some may be NaN or infinite."""
    if value is None or isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be a number or an array of numbers, got {value}")
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "biufO" or np.ma.is_masked(value):
            raise ValueError("no plain real numbers")
        if array.dtype.kind == "O" and any(isinstance(entry, str) for entry in array.flat):
            raise ValueError("text")
        return array.astype(float, copy=False)
    except Exception as error:  # of the value's own __array__, too
        raise ValueError(
            f"{name} must hold real numbers only, in rows of one length, got {brief(value)}"
        ) from error


def brief(value: Any) -> str:
    """A value in an error message, on one line."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # of the value's own, or for lists in lists in lists
        text = f"a {type(value).__name__} that cannot be written"
    return text if len(text) < 60 else f"{text[:57]}..."


def tell_failure(function: Any, error: Exception) -> str:
    """How a user's own function ended, as the end of an error message."""
    first = str(error).partition("\n")[0]
    return f"got {brief(function)}, which fails with {type(error).__name__}: {first}"


def positive(name: str, value: Any, *, number: bool = False) -> Float[Array, "..."]:
    """A positive number, or a vector of them where not only a `number` will do."""
    array = as_array(name, value)
    if array.ndim > (0 if number else 1):
        allowed = "one number" if number else "a number or one number a coordinate"
        raise ValueError(f"{name} must be {allowed}, got shape {array.shape}")
    if array.size == 0:
        raise ValueError(f"{name} is empty; give at least one number")
    if not is_traced(value) and not (np.asarray(value) > 0).all():
        raise ValueError(f"{name} must be positive, got {brief(value)}")
    return array


def plain_number(name: str, value: Any) -> float:
    """A Python number, for parameters that choose the formula and cannot be traced."""
    if is_traced(value):
        raise ValueError(f"{name} chooses the formula and must be a plain number outside jit")
    array = as_array(name, value)
    if array.ndim:
        raise ValueError(f"{name} must be one number, got shape {array.shape}")
    return float(array)


def as_probability(name: str, value: Any) -> float:
    """A number between 0 and 1, neither of them."""
    number = plain_number(name, value)
    if not 0 < number < 1:
        raise ValueError(f"{name} must lie between 0 and 1, got {brief(value)}")
    return number


def as_rows(
    name: str, value: Any, dim: int | None = None, *, batched: bool = False
) -> Float[Array, "... n d"]:
    """A sample as rows: (n, d); (n,) is read as n numbers; (..., n, d) where `batched`."""
    array = as_array(name, value)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim < 2 or (array.ndim > 2 and not batched):
        shapes = "(n,), (n, d) or (batch, n, d)" if batched else "(n,) or (n, d)"
        raise ValueError(f"{name} must have shape {shapes}, got {array.shape}")
    if array.size == 0:
        raise ValueError(f"{name} is empty (shape {array.shape}); it needs at least one row")
    if dim is not None and array.shape[-1] != dim:
        numbers = ", where n numbers (n,) are n rows of one" if np.ndim(value) == 1 else ""
        raise ValueError(
            f"{name} has {array.shape[-1]} columns where {dim} are expected "
            f"(shape {np.shape(value)}{numbers}); give {dim}"
        )
    return array


def as_covariance(value: Any, dim: int) -> Float[Array, "d d"]:
    """A matrix (dim, dim), symmetric and positive definite."""
    matrix = as_array("covariance", value)
    if matrix.shape != (dim, dim):
        raise ValueError(f"covariance must have shape {(dim, dim)}, got shape {matrix.shape}")
    if not is_traced(matrix):
        known = np.asarray(matrix)
        symmetric = np.allclose(known, known.T, atol=_SYMMETRIC * np.abs(known).max())
        if not symmetric or np.linalg.eigvalsh(known)[0] <= 0:
            raise ValueError("covariance must be symmetric and positive definite")
    return matrix


def as_weights(name: str, value: Any, rows: Array) -> Float[Array, "... n"]:
    """One weight for each row of `rows` (..., n, d); a leading batch axis may be left out."""
    if hasattr(value, "weights"):
        raise ValueError(
            f"{name} must be an array, got a {type(value).__name__}; pass its .weights"
        )
    array = as_array(name, value)
    if array.ndim == 0 or array.shape not in (rows.shape[-2:-1], rows.shape[:-1]):
        raise ValueError(
            f"{name} must hold one weight for each of the {rows.shape[-2]} rows, "
            f"got shape {array.shape}"
        )
    return array


def as_count(name: str, value: Any, least: int = 1, *, most: int = MOST_COUNT) -> int:
    """A whole number from `least` to `most`."""
    try:
        count = operator.index(int(value) if isinstance(value, float) else value)
    except Exception:  # of the value's own __index__, too
        count = least - 1
    if isinstance(value, bool) or count < least or count != value:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {brief(value)}")
    if count > most:
        raise ValueError(f"{name} must be at most {most:,}, got {brief(value)}")
    return count


def as_bound(name: str, value: Any) -> float:
    """A positive number, perhaps infinite."""
    try:
        bound = np.nan if isinstance(value, bool | np.bool_ | str | bytes) else float(value)
    except Exception:  # of the value's own __float__, too
        bound = np.nan
    if not bound > 0:
        raise ValueError(f"{name} must be a positive number, perhaps infinite, got {brief(value)}")
    return bound


def check_size(name: str, count: int, dim: int) -> None:
    """ValueError for so many points of so many coordinates that they do not fit in memory."""
    if count * dim > MOST_NUMBERS:
        raise ValueError(
            f"{name} = {count:,} in {dim:,} coordinates are more than {MOST_NUMBERS:,} numbers, "
            "too many for memory; take fewer"
        )


def check_memory(name: str, numbers: int, remedy: str = "take fewer thetas or points") -> None:
    """ValueError for so many numbers that they would take more than half of the memory."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # an operating system that does not tell
        memory = 16 * MOST_NUMBERS
    if 8 * numbers > memory / 2:
        raise ValueError(
            f"{name} ask for {numbers:,} numbers, {8 * numbers / 1e9:,.0f} GB, where half of the "
            f"memory is {memory / 2e9:,.0f} GB; {remedy}"
        )


def as_truth(name: str, value: Any) -> bool:
    """True or False, of Python or NumPy."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {brief(value)}")
    return bool(value)


def as_names(name: str, value: Any) -> tuple[str, ...]:
    """A list of texts."""
    try:
        names = (0,) if isinstance(value, str | bytes) else tuple(value)
    except Exception:  # of the value's own __iter__, too
        names = (0,)
    if not all(isinstance(entry, str) for entry in names):
        raise ValueError(f"{name} must be a list of names, got {brief(value)}")
    return names


def as_path(name: str, value: Any) -> Path:
    """Where a file is."""
    try:
        path = Path(value)
    except Exception as error:  # of the value's own __fspath__, too
        raise ValueError(f"{name} must be the path of a file, got {brief(value)}") from error
    try:
        path.stat()
    except (OSError, ValueError) as error:
        if getattr(error, "errno", errno.ENAMETOOLONG) == errno.ENAMETOOLONG:  # or a zero byte
            raise ValueError(
                f"{name} can be no path ({error}), got {brief(value)}; shorten it"
            ) from error
    return path


def as_kind(name: str, value: Any, kind: type | UnionType, expected: str) -> Any:
    """The value itself; ValueError where it is of another type than expected."""
    if not isinstance(value, kind):
        raise ValueError(f"{name} must be {expected}, got {brief(value)}")
    return value


def is_hashable(value: Any) -> bool:
    """Whether compiled programs can remember it."""
    try:
        hash(value)
    except Exception:  # of its own
        return False
    return True
