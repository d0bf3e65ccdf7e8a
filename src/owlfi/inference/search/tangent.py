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
from owlfi._tools.real_line import to_real
from owlfi.inference.search.designs import Designs, Simulated, leave_out_failed, simulate_designs
from owlfi.inference.search.objective import (
    Objective,
    curve_rows,
    slopes_by_theta,
    where_finite,
)
from owlfi.kernels import Kernel
from owlfi.problem.jax_or_host import compile_where_it_runs
from owlfi.problem.simulator import Simulator

_MOST_ROWS = 2048  # with slopes, at an estimate


class Tangent(NamedTuple):
    """∂_a μ at some rows, and what follows from it for the squared MMD."""

    hessian: Float[Array, "p p"]
    """Of MMD² by theta."""
    metric: Float[Array, "p p"]
    """⟨∂_a μ, ∂_b μ⟩, semi-definite."""
    alone: Float[Array, " p"]
    """The share of its diagonal that each simulation has with itself: it falls as 1/m."""
    at_data: Float[Array, "p n"]
    """∂_a Σ_j w_j k(x_i, y_j) at each observation."""
    of_points: Float[Array, "p p"]
    """The covariance of the gradient of MMD² over designs of as many independent points."""
    at_designs: Float[Array, "p r"]
    """⟨∂_a ν, μ_r⟩ for simulations on other designs of the same kind, ν with their weights."""
    towards_data: Float[Array, " p"]
    """⟨∂_a ν, μ_x⟩."""
    independent: Float[Array, ""]
    """The squared error of as many independent points."""
    failed: Float[Array, ""]
    """The share of simulations that failed."""
    overlap: float
    """The share of all μ_r that ∂_a μ is made of, too."""


def choose_joint(designs: Designs) -> int:
    """How many of the designs slopes are simulated on."""
    return count_joint(*designs.weights.shape)


def count_joint(r: int, m: int) -> int:
    """The same of r designs of m points: of few points, all."""
    return min(r, max(1, _MOST_ROWS // m))


def designs_calls(simulator: Simulator, m: int, designs: int) -> int:
    """The rows that a look at so many designs of m points simulates."""
    joint = count_joint(designs, m)
    return simulator.slope_calls(joint * m) + (designs - joint) * m


def pool(objective: Objective, designs: Designs) -> Objective:
    """On the points of the first designs together, equally weighted; its own where there are none.

    On few points MMD² has ripples, steeper than its valley, where k is narrower than the gaps
    between simulations, as in long tails.
    """
    joint = choose_joint(designs)
    if not joint:
        return objective
    points = designs.points[:joint].reshape(-1, designs.points.shape[2])
    return objective.on(points, jnp.full(points.shape[0], 1 / points.shape[0]))


@compile_where_it_runs
def tangent_by_slopes(
    objective: Objective, theta: Float[Array, " p"], designs: Designs
) -> tuple[Tangent, Simulated, int]:
    """Along the derivatives of simulations on other designs; these, and the rows of the slopes.

    Where the simulator has no second derivatives the Hessian leaves them out: right where the
    model is.
    """
    m, joint, together = designs.weights.shape[1], choose_joint(designs), pool(objective, designs)
    rows = together.rows_with_slopes(to_real(theta, objective.ends))
    slopes = slopes_by_theta(objective, theta, rows.slopes)
    curved = curve_rows(together, rows.y, slopes)
    bend = objective.simulator.bend(theta, together.points, curved.slope, lambda at: at)
    hessian = curved.curvature + where_finite(bend)
    others = simulate_designs(objective, theta, designs.points[joint:])
    y = jnp.concatenate([rows.y[: joint * m].reshape(joint, m, others.shape[2]), others])
    seen = leave_out_failed(objective, y, designs.weights)
    return _along_slopes(together, rows.y, slopes, hessian, seen), seen, rows.calls


@compile_quickly
def _along_slopes(
    objective: Objective, y: Array, slopes: Array, hessian: Array, designs: Simulated
) -> Tangent:
    finished = objective.finished(y)
    k, w, x = objective.data_kernel, finished.weights, objective.observed
    y, slopes = finished.y, jnp.where(finished.fine[None, :, None], slopes, 0.0)

    def along(function: Callable[[Array], Array]) -> Array:
        return jax.lax.map(jax.linearize(function, y)[1], slopes)

    n, (r, m) = len(x), designs.weights.shape
    size = y.shape[0]
    places = jnp.concatenate([x, designs.y.reshape(r * m, y.shape[1])])  # compiled once for all
    own = designs.weights.reshape(-1)[:size] * m / size if r else w
    at_places = along(lambda rows: k.row_sums(places, rows, own))
    at_designs = at_places[:, n:].reshape(len(slopes), r, m) * designs.weights[None]
    metric = embedding_metric(objective.on(objective.points, w), y, slopes)
    alone = metric_alone(k, w, y, slopes)
    others = jnp.maximum(jnp.diag(metric) - alone, 0.0)
    return Tangent(
        hessian,
        metric,
        alone / (alone + others + jnp.finfo(float).tiny),
        along(lambda rows: k.row_sums(x, rows, w)),
        size / m * covariance_of_points(along(lambda rows: gaps(objective, rows))),
        at_designs.sum(2),
        at_places[:, :n] @ objective.shares,
        size / m * independent_error(objective, y),
        (~finished.fine).mean(),
        1 / r if r else 0.0,
    )


def covariance_of_points(added: Float[Array, "p m"]) -> Float[Array, "p p"]:
    """Of the gradient over designs of m independent points, from what each adds to half of it."""
    centred, m = added - added.mean(1, keepdims=True), added.shape[1]
    return 4 / m**2 * centred @ centred.T


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


def metric_alone(
    k: Kernel, w: Float[Array, " m"], y: Float[Array, "m d"], slopes: Float[Array, "p m d"]
) -> Float[Array, " p"]:
    """Σ w_i² ∂_a y_i · ∂₁∂₂k(y_i, y_i) · ∂_a y_i."""

    def square(row: Array, slope: Array) -> Array:
        def along(at: Array) -> Array:
            return jax.jvp(lambda to: k.gram(at[None], to[None])[0, 0], (row,), (slope,))[1]

        return jax.jvp(along, (row,), (slope,))[1]

    return jax.lax.map(lambda moved: w**2 @ jax.vmap(square)(y, moved), slopes)
