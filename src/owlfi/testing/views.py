"""What else to look at than the data as they are: what lengthscales of k alone do not see.

Narrow clusters; ranks, whose dependence is left when margins are right, and their magnitudes, since
tails that go together show there; and each column alone. No view depends on units.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtri
from jaxtyping import Array, Float

from owlfi.inference.search.objective import Objective
from owlfi.kernels import Kernel, SquaredExponential
from owlfi.mmd import own_term, simulated_term

_NARROW = (0.1, 0.2)  # of the lengthscale of k
_RANKS, _MAGNITUDES, _LEVELS = 0.7, (0.7, 1.4), 0.3  # lengthscales, in typical distances; of levels
_HALF_NORMAL = 1 - 2 / np.pi  # the variance of |z|
_MOST_COLUMNS = 20  # to look at one by one


class View(NamedTuple):
    """Both samples in some coordinates, and a kernel there."""

    x: Float[Array, "n e"]
    y: Float[Array, "m e"]
    data_kernel: Kernel


def name_views(d: int) -> list[str]:
    """Of data with d columns, in the order of `compare_views`."""
    narrow = [f"{factor:g} lengthscales" for factor in _NARROW]
    if d == 1:
        return narrow
    magnitudes = [f"magnitudes of ranks, {factor:g}" for factor in _MAGNITUDES]
    margins = ["single columns"] if d <= _MOST_COLUMNS else []
    return [*narrow, "ranks", *magnitudes, *margins]


def compare_views(
    data: Objective, y: Float[Array, "m d"], weights: Float[Array, " m"]
) -> Float[Array, " v"]:
    """The squared MMD in each view, between weighted simulations and the data."""
    finished = data.on(data.points, weights).finished(y)
    shares, w = data.shares, finished.weights
    values = []
    for x, rows, k in _look(data, finished.y):
        sample = rows, x, w, shares
        own = own_term(k, x, shares, data.unbiased)
        values.append(simulated_term(k, *sample, data.unbiased) + own)
    if 1 < y.shape[1] <= _MOST_COLUMNS:
        values.append(_compare_columns(data, finished.y, w))
    return jnp.where(finished.enough, jnp.stack(values), jnp.nan)


def _look(data: Objective, y: Float[Array, "m d"]) -> list[View]:
    """All views but that of single columns."""
    x, d = data.observed, y.shape[1]
    views = [View(x, y, data.data_kernel.stretch(factor)) for factor in _NARROW]
    if d == 1:
        return views
    scores, others = rank_scores(x), rank_scores(y)
    distance = (2.0 * d) ** 0.5
    views.append(View(scores, others, _exponential(_RANKS * distance)))
    for factor in _MAGNITUDES:
        k = _exponential(factor * distance * _HALF_NORMAL**0.5)
        views.append(View(jnp.abs(scores), jnp.abs(others), k))
    return views


def _exponential(lengthscale: float) -> SquaredExponential:
    return SquaredExponential(jnp.asarray(lengthscale))


def rank_scores(rows: Float[Array, "n d"]) -> Float[Array, "n d"]:
    """The normal quantiles of each column's ranks among its own, of ties the middle.

    >>> rank_scores(jnp.array([[3.0], [7.0], [5.0]])).round(2)
    Array([[-0.97],
           [ 0.97],
           [ 0.  ]], dtype=float64)
    """
    return ndtri(_levels(rows, rows))


def _levels(rows: Float[Array, "m d"], sample: Float[Array, "n d"]) -> Float[Array, "m d"]:
    """The share of a sample below each entry of the same column, equal ones counted by half."""

    def levels(column: Array, ordered: Array) -> Array:
        below = jnp.searchsorted(ordered, column, side="left")
        upto = jnp.searchsorted(ordered, column, side="right")
        return (below + upto) * (0.5 / jnp.asarray(len(ordered), float))  # not in single precision

    return jax.vmap(levels, (1, 1), 1)(rows, jnp.sort(sample, axis=0))


def _compare_columns(
    data: Objective, y: Float[Array, "m d"], w: Float[Array, " m"]
) -> Float[Array, ""]:
    """The mean over columns, each in levels of the data."""
    x, k = data.observed, _exponential(_LEVELS)

    def compare(column: tuple[Array, Array]) -> Array:
        levels, others = column[0][:, None], column[1][:, None]
        own = own_term(k, levels, data.shares, data.unbiased)
        return simulated_term(k, others, levels, w, data.shares, data.unbiased) + own

    return jax.lax.map(compare, (_levels(x, x).T, _levels(y, x).T)).mean()
