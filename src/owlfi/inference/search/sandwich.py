"""How far a minimum-distance estimate may be off: the sandwich covariance H⁻¹ S H⁻¹.

S is the covariance of the gradient of MMD² over samples of observations, H its Hessian.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from owlfi.inference.search.objective import Objective, curve_rows, slopes_by_theta
from owlfi.problem.jax_or_host import compile_where_it_runs
from owlfi.problem.real_line import to_real


class Sandwich(NamedTuple):
    """The covariance of an estimate, and the Hessian of MMD² there."""

    covariance: Float[Array, "p p"]
    hessian: Float[Array, "p p"]


@compile_where_it_runs
def sandwich(
    objective: Objective, theta: Float[Array, " p"], *, excess: ArrayLike | None = 0.0
) -> tuple[Sandwich, int]:
    """Of an estimate theta, and the rows that the simulator computed for it.

    excess: the squared MMD between the weighted points and the law of the simulator, whose error
        adds to the spread; None for that of independent points, of order 1/m.

    Where the simulator has no second derivatives the Hessian leaves them out: right where the
    model is.
    """
    rows = objective.rows_with_slopes(to_real(theta, objective.ends))
    slopes = slopes_by_theta(objective, theta, rows.slopes)
    curved = curve_rows(objective, rows.y, slopes)
    bend = objective.simulator.bend(theta, objective.points, curved.slope, lambda at: at)
    return _between(objective, rows.y, slopes, curved.curvature + bend, excess), rows.calls


@eqx.filter_jit
def _between(
    objective: Objective, y: Array, slopes: Array, hessian: Array, excess: ArrayLike | None
) -> Sandwich:
    k, w, x, shares = objective.data_kernel, objective.weights, objective.observed, objective.shares
    data = _derivatives(lambda rows: k.row_sums(x, rows, w), y, slopes)
    spread = 4 * _covariance(data, shares) * jnp.sum(shares**2)
    spread = spread + _of_points(objective, y, slopes, excess)
    definite = jnp.linalg.eigvalsh(hessian)[0] > 0
    curved = jnp.where(definite, hessian, 2 * embedding_metric(objective, y, slopes))
    half = jnp.linalg.solve(curved, spread)
    return Sandwich(jnp.linalg.solve(curved, half.T), curved)


def _of_points(
    objective: Objective, y: Array, slopes: Array, excess: ArrayLike | None
) -> Float[Array, "p p"]:
    """What independent points would add, times their share of such points' squared error."""
    k, m = objective.data_kernel, y.shape[0]
    w = jnp.full(m, 1 / m)

    def gap(rows: Array) -> Array:
        return k.row_sums(rows, rows, w) - k.row_sums(rows, objective.observed, objective.shares)

    own = 4 / m * _covariance(_derivatives(gap, y, slopes), w)
    independent = (k.diagonal(y).mean() - w @ k.row_sums(y, y, w)) / m
    if excess is None:
        return own
    return jnp.where(independent > 0, own * excess / independent, 0.0)  # one point has no spread


def _derivatives(
    function: Callable[[Array], Array], y: Array, slopes: Array
) -> Float[Array, "p n"]:
    return jax.lax.map(jax.linearize(function, y)[1], slopes)


def _covariance(values: Float[Array, "p n"], shares: Array) -> Float[Array, "p p"]:
    centred = values - (values @ shares)[:, None]
    return (centred * shares[None]) @ centred.T


def embedding_metric(
    objective: Objective, y: Float[Array, "m d"], slopes: Float[Array, "p m d"]
) -> Float[Array, "p p"]:
    """⟨∂_a μ, ∂_b μ⟩ = Σ w_i w_j ∂_a y_i · ∂₁∂₂k(y_i, y_j) · ∂_b y_j, semi-definite."""
    w, k = objective.weights, objective.data_kernel

    def slope(other: Array) -> Array:
        return jax.grad(lambda rows: w @ k.row_sums(rows, other, w))(y)

    changes = jax.lax.map(jax.linearize(slope, y)[1], slopes)
    return jnp.tensordot(slopes, changes, [[1, 2], [1, 2]])
