"""How the embedding of the model moves with theta at an estimate, to first order.

Along derivatives of the simulations where they tell it; along a regression over thetas around the
estimate where simulations jump, are counts or chaotic, so that their derivatives say nothing of
their law.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from owlfi._tools.programs import compile_quickly
from owlfi.inference.search.objective import (
    Objective,
    curve_rows,
    slopes_by_theta,
    where_finite,
)
from owlfi.problem.jax_or_host import compile_where_it_runs
from owlfi.problem.real_line import to_real


class Tangent(NamedTuple):
    """∂_a μ at some rows, and what follows from it for the squared MMD."""

    hessian: Float[Array, "p p"]
    """Of MMD² by theta."""
    metric: Float[Array, "p p"]
    """⟨∂_a μ, ∂_b μ⟩, semi-definite."""
    at_data: Float[Array, "p n"]
    """∂_a Σ_j w_j k(x_i, y_j) at each observation."""
    at_points: Float[Array, "p m"]
    """∂_a of what each simulation, equally weighted, adds to MMD²."""
    at_designs: Float[Array, "p r"]
    """⟨∂_a μ, μ_r⟩ for simulations on other designs of the same kind."""
    independent: Float[Array, ""]
    """The squared error of as many independent points."""
    failed: Float[Array, ""]
    """The share of simulations that failed."""


class Designs(NamedTuple):
    """Simulations at the estimate on other designs of the same kind."""

    y: Float[Array, "r m d"]
    weights: Float[Array, "r m"]


def no_designs(objective: Objective) -> Designs:
    """Where the choice of the points is known to matter little, or by a formula."""
    m, d = objective.m, objective.observed.shape[1]
    return Designs(jnp.zeros((0, m, d)), jnp.zeros((0, m)))


@compile_where_it_runs
def tangent_by_slopes(
    objective: Objective, theta: Float[Array, " p"], designs: Designs
) -> tuple[Tangent, int]:
    """Along the derivatives of the simulations, and the rows that the simulator computed.

    Where the simulator has no second derivatives the Hessian leaves them out: right where the
    model is.
    """
    rows = objective.rows_with_slopes(to_real(theta, objective.ends))
    slopes = slopes_by_theta(objective, theta, rows.slopes)
    curved = curve_rows(objective, rows.y, slopes)
    bend = objective.simulator.bend(theta, objective.points, curved.slope, lambda at: at)
    hessian = curved.curvature + where_finite(bend)
    return _along_slopes(objective, rows.y, slopes, hessian, designs), rows.calls


@compile_quickly
def _along_slopes(
    objective: Objective, y: Array, slopes: Array, hessian: Array, designs: Designs
) -> Tangent:
    finished = objective.finished(y)
    k, w, x = objective.data_kernel, finished.weights, objective.observed
    y, slopes = finished.y, jnp.where(finished.fine[None, :, None], slopes, 0.0)

    def along(function: Callable[[Array], Array]) -> Array:
        return jax.lax.map(jax.linearize(function, y)[1], slopes)

    n, (r, m) = len(x), designs.weights.shape
    places = jnp.concatenate([x, designs.y.reshape(r * m, y.shape[1])])  # compiled once for all
    at_places = along(lambda rows: k.row_sums(places, rows, w))
    return Tangent(
        hessian,
        embedding_metric(objective.on(objective.points, w), y, slopes),
        at_places[:, :n],
        along(lambda rows: gaps(objective, rows)),
        jnp.einsum("arm,rm->ar", at_places[:, n:].reshape(len(slopes), r, m), designs.weights),
        independent_error(objective, y),
        (~finished.fine).mean(),
    )


def gaps(objective: Objective, rows: Float[Array, "m d"]) -> Float[Array, " m"]:
    """What each simulation, equally weighted, adds to half the squared MMD."""
    k, w = objective.data_kernel, jnp.full(rows.shape[0], 1 / rows.shape[0])
    own = k.row_sums(rows, rows, w)
    return own - k.row_sums(rows, objective.observed, objective.shares)


def independent_error(objective: Objective, y: Float[Array, "m d"]) -> Float[Array, ""]:
    """The squared error that as many independent points would have."""
    k, m = objective.data_kernel, y.shape[0]
    w = jnp.full(m, 1 / m)
    return (k.diagonal(y).mean() - w @ k.row_sums(y, y, w)) / m


def embedding_metric(
    objective: Objective, y: Float[Array, "m d"], slopes: Float[Array, "p m d"]
) -> Float[Array, "p p"]:
    """⟨∂_a μ, ∂_b μ⟩ = Σ w_i w_j ∂_a y_i · ∂₁∂₂k(y_i, y_j) · ∂_b y_j, semi-definite."""
    w, k = objective.weights, objective.data_kernel

    def slope(other: Array) -> Array:
        return jax.grad(lambda rows: w @ k.row_sums(rows, other, w))(y)

    changes = jax.lax.map(jax.linearize(slope, y)[1], slopes)
    return jnp.tensordot(slopes, changes, [[1, 2], [1, 2]])
