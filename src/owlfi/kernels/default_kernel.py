"""The data kernel where none is given: a squared exponential that no unit of the data changes."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from owlfi._tools.checks import as_rows, is_traced
from owlfi.kernels import SquaredExponential
from owlfi.kernels.spread import measure_spreads, typical_distance


def default_kernel(
    data: Any, *, name: str = "data", spreads_elsewhere: Callable[[], Array] | None = None
) -> SquaredExponential:
    """A squared exponential at the median lengthscale of the data, each column in its own unit.

    data: (n, d), or (n,) for n numbers.
    name: what errors call them.
    spreads_elsewhere: gives spreads (d,) for columns in which the data are constant. Where that is
        left out, or 0, such a column has an infinite lengthscale: it is left out.

    The unit of a column is its interquartile range, or its standard deviation where that is 0. In
    one column, the lengthscale is the `median_heuristic`. Where half of all pairs of rows coincide,
    as counts do, it is that of the distinct rows.

    Raises ValueError for less than two rows, and where all rows are equal.

    >>> x = jnp.array([[0.0, 1.0], [1.0, 5.0], [2.0, 3.0], [4.0, 2.0]])
    >>> millions = jnp.array([[1.0, 1e6]])
    >>> default_kernel(x * millions).lengthscale / default_kernel(x).lengthscale
    Array([1.e+00, 1.e+06], dtype=float64)
    """
    x = as_rows(name, data)
    if x.shape[1] == 1:
        return SquaredExponential(typical_distance(x, name=name))
    spreads = measure_spreads(x)
    if spreads_elsewhere is not None and not is_traced(x) and not bool((spreads > 0).all()):
        spreads = jnp.where(spreads > 0, spreads, spreads_elsewhere())
    units = jnp.where(spreads > 0, spreads, jnp.inf)
    return _with_lengthscales(units * typical_distance(x / units[None], name=name))


def _with_lengthscales(lengthscales: Float[Array, " d"]) -> SquaredExponential:
    """Infinite ones included, which from a user would be a mistake."""
    unit = SquaredExponential(jnp.ones(lengthscales.shape))
    return eqx.tree_at(lambda k: k.lengthscale, unit, lengthscales)
