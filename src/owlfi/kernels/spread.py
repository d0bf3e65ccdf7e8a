"""How far data spread, column by column and as rows, whatever their units, outliers and ties."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from owlfi._tools.checks import is_traced
from owlfi.kernels.median_heuristic import median_heuristic

_NORMAL_IQR = 1.349  # in standard deviations


def measure_spreads(rows: Float[Array, "n d"]) -> Float[Array, " d"]:
    """Of each column, the interquartile range as a standard deviation of normal data.

    The standard deviation itself where the quartiles agree; 0 where all numbers do.

    >>> measure_spreads(jnp.array([[0.0, 5.0], [0.0, 5.0], [0.0, 5.0], [4.0, 5.0]])).round(3)
    Array([0.741, 0.   ], dtype=float64)
    """
    numpy = jnp if is_traced(rows) else np
    x = numpy.asarray(rows)
    low, high = numpy.quantile(x, numpy.array([0.25, 0.75]), axis=0)
    varies = x.max(0) > x.min(0)  # rounding gives equal numbers a standard deviation
    spreads = numpy.where(high > low, (high - low) / _NORMAL_IQR, numpy.std(x, axis=0))
    return jnp.asarray(numpy.where(varies, spreads, 0.0))


def typical_distance(rows: Float[Array, "n d"], *, name: str = "data") -> Float[Array, ""]:
    """The median heuristic; that of the distinct rows where half of all pairs coincide.

    Raises ValueError where all rows are equal, or not finite.

    >>> float(typical_distance(jnp.array([[0.0], [0.0], [0.0], [1.0]])))
    0.5
    """
    if is_traced(rows):
        return median_heuristic(rows, name=name)
    try:
        return median_heuristic(rows, name=name)
    except ValueError:
        distinct = np.unique(np.asarray(rows), axis=0)
        if not np.isfinite(distinct).all():
            raise
    if len(distinct) < 2:
        rows_are = "1 row" if len(rows) == 1 else f"{len(rows)} rows that are all equal"
        raise ValueError(
            f"{name} has {rows_are}, which leaves the lengthscale of the data kernel open; give "
            "one yourself, as in data_kernel=SquaredExponential(1.0)"
        )
    return median_heuristic(distinct, name=name)
