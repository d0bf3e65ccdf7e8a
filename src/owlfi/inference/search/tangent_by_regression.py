"""How the embedding moves with theta along the regression of a scatter, without its noise."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from owlfi._tools.covariances import take_out_units
from owlfi._tools.programs import compile_quickly
from owlfi.inference.search.designs import Simulated
from owlfi.inference.search.scatter import Scatter, left_over, rest_of
from owlfi.inference.search.tangent import Tangent, covariance_of_points, gaps, independent_error

_LEAST_KEPT = 0.2


@compile_quickly
def tangent_by_regression(
    scatter: Scatter,
    xi: Float[Array, " p"],
    designs: Simulated | None = None,
    again: Scatter | None = None,
) -> Tangent:
    """Along the regression at ξ, by theta.

    designs: others, where it is for the errors of an estimate; without, it says where to go.
    again: another scatter on other points.
    """
    objective = scatter.objective
    along = _go_along(scatter, xi)
    independent = independent_error(objective, scatter.y[jnp.argmax(scatter.mixture(xi))])
    at_designs = jnp.zeros((0, len(along)))
    if designs is not None:
        others = designs.y, designs.weights
        at_designs = jax.lax.map(lambda pair: along @ (scatter.at_rows(pair[0]) @ pair[1]), others)
    at_data = along @ scatter.at_rows(objective.observed)
    metric = along @ scatter.products @ along.T
    if again is None:
        noise = _tell_jumps(scatter, along)
    else:
        other = _go_along(again, again.xi_of(scatter.theta(xi)))
        metric = (metric + other @ again.products @ other.T) / 2
        noise = metric - _multiply_slopes(scatter, along, again, other)
    metric, alone = _without_noise(metric, noise)
    return Tangent(
        2 * metric,
        metric,
        alone,
        at_data,
        covariance_of_points(along @ jax.lax.map(lambda rows: gaps(objective, rows), scatter.y)),
        at_designs.T,
        at_data @ objective.shares,
        independent,
        (~scatter.fine).mean(),
        0.0,
    )


def _go_along(scatter: Scatter, xi: Float[Array, " p"]) -> Float[Array, "p t"]:
    """∂_a μ at ξ as a mixture of the embeddings."""
    by_xi = jax.jacfwd(scatter.mixture)(xi).T
    return jnp.linalg.solve(scatter.spread.T, by_xi) / scatter.steepness(xi)[:, None]


def _multiply_slopes(
    one: Scatter, along: Float[Array, "p t"], other: Scatter, beside: Float[Array, "p t"]
) -> Float[Array, "p p"]:
    """⟨∂_a μ, ∂_b μ⟩ on different points: no simulation meets itself."""
    k = one.objective.data_kernel
    (rows, moved), (others, changed) = _spread_out(one, along), _spread_out(other, beside)
    found = moved @ jax.lax.map(lambda weights: k.row_sums(rows, others, weights), changed).T
    return (found + found.T) / 2


def _spread_out(
    scatter: Scatter, along: Float[Array, "p t"]
) -> tuple[Float[Array, "r d"], Float[Array, "p r"]]:
    """All simulations, and what each of them adds to the slopes."""
    added = along[:, :, None] * scatter.weights[None]
    return scatter.y.reshape(-1, scatter.y.shape[2]), added.reshape(len(along), -1)


def _tell_jumps(scatter: Scatter, along: Float[Array, "p t"]) -> Float[Array, "p p"]:
    """What jumps at single thetas add to ⟨∂_a μ, ∂_b μ⟩, from what the polynomial leaves over."""
    return left_over(scatter) / jnp.trace(rest_of(scatter)) * along @ along.T


def _without_noise(
    metric: Float[Array, "p p"], noise: Float[Array, "p p"]
) -> tuple[Float[Array, "p p"], Float[Array, " p"]]:
    """What noise leaves of a metric, a fifth in any direction at least.

    And the share of its diagonal that is noise.
    """
    alike, units = take_out_units(metric)
    scale, p = units[:, None] * units[None], len(metric)
    root = jnp.linalg.cholesky(alike + jnp.finfo(float).eps * p * jnp.eye(p))
    half = jax.scipy.linalg.solve_triangular(root, noise / scale, lower=True)
    relative = jax.scipy.linalg.solve_triangular(root, half.T, lower=True)
    sizes, directions = jnp.linalg.eigh((relative + relative.T) / 2)
    kept = root @ (directions * jnp.sqrt(jnp.maximum(1 - sizes, _LEAST_KEPT))[None])
    return kept @ kept.T * scale, jnp.diag(noise) / (jnp.diag(metric) + jnp.finfo(float).tiny)
