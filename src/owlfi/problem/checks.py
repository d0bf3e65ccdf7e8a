"""What goes into a simulator and what comes out of it, checked."""

from typing import Any

import numpy as np
from jaxtyping import Array, Float

from owlfi._tools.arrays import as_jax, numpy_for
from owlfi._tools.checks import as_array, as_names, brief, is_traced


def check_finite(thetas: Array, u: Array, y: Array) -> None:
    """Raise ValueError for the first value of y (t, m, d) that is NaN or infinite."""
    if is_traced(y):
        return
    bad = np.argwhere(~np.isfinite(np.asarray(y).reshape(-1, *y.shape[-2:])))
    if len(bad):
        i, j, column = (int(index) for index in bad[0])
        theta = np.asarray(thetas).reshape(-1, thetas.shape[-1])[i]
        raise ValueError(
            f"y has a value that is NaN or infinite: column {column} of point {j} at theta = "
            f"{theta}, u = {np.asarray(u[i, j] if u.ndim == 3 else u[j])}; "
            "mend the generator or narrow the range of theta"
        )


def as_parameters(parameters: Any) -> tuple[str, ...]:
    """Different names; ValueError for anything else."""
    names = as_names("parameters", parameters)
    if not all(map(str.strip, names)):
        raise ValueError(f"parameters must have names, got {brief(names)}, where one is empty")
    if len(set(names)) < len(names):
        raise ValueError(f"parameters must have different names, got {brief(names)}")
    return names


def as_theta(theta: Any, names: tuple[str, ...]) -> Float[Array, " p"]:
    """One number for each name; ValueError for anything else."""
    array = as_array("theta", theta)
    if array.shape != (len(names),):
        raise ValueError(
            f"theta must hold the {len(names)} parameters {', '.join(names)}, "
            f"got shape {array.shape}"
        )
    return array


def as_sample(y: Any, rows: int) -> Float[Array, "m d"]:
    """One row of real numbers for each row of u; ValueError for anything else."""
    try:
        sample = numpy_for(y).asarray(y)
        if sample.dtype.kind in "cOSU":
            raise TypeError(f"no real numbers: {sample.dtype}")
        sample = sample.astype(float)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the generator must return an array of real numbers, got {type(y).__name__}"
        ) from error
    if sample.ndim == 1:
        sample = sample[:, None]
    if sample.ndim != 2 or sample.shape[0] != rows or sample.shape[1] == 0:
        raise ValueError(
            f"the generator must return an array (m, d) with one row for each of the {rows} rows "
            f"of u, got shape {np.shape(y)}"
        )
    return as_jax(sample)
