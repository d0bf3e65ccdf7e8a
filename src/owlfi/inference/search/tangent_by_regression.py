"""How the embedding moves with theta along the regression of a scatter, without its noise."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from owlfi._tools.programs import compile_quickly
from owlfi.inference.search.designs import Simulated
from owlfi.inference.search.scatter import Scatter, left_over, rest_of
from owlfi.inference.search.tangent import Tangent, covariance_of_points, gaps, independent_error

_LEAST_KEPT = 0.2


@compile_quickly
def tangent_by_regression(
    scatter: Scatter, xi: Float[Array, " p"], designs: Simulated | None = None
) -> Tangent:
    """Along the regression at ξ, by theta.

    designs: others, where it is for the errors of an estimate; without, it says where to go.
    """
    objective = scatter.objective
    by_xi = jax.jacfwd(scatter.mixture)(xi).T
    along = jnp.linalg.solve(scatter.spread.T, by_xi) / scatter.steepness(xi)[:, None]
    independent = independent_error(objective, scatter.y[jnp.argmax(scatter.mixture(xi))])
    at_designs, noises = jnp.zeros((0, len(along))), [_tell_jumps(scatter, along)]
    if designs is not None:
        others = designs.y, designs.weights
        at_designs = jax.lax.map(lambda pair: along @ (scatter.at_rows(pair[0]) @ pair[1]), others)
        noises.append(_compare_halves(scatter, along))
    metric, alone = _without_noise(along @ scatter.products @ along.T, *noises)
    at_data = along @ scatter.at_rows(objective.observed)
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


def _tell_jumps(scatter: Scatter, along: Float[Array, "p t"]) -> Float[Array, "p p"]:
    """What jumps at single thetas add to ⟨∂_a μ, ∂_b μ⟩, from what the polynomial leaves over."""
    return left_over(scatter) / jnp.trace(rest_of(scatter)) * along @ along.T


def _compare_halves(scatter: Scatter, along: Float[Array, "p t"]) -> Float[Array, "p p"]:
    """What each simulation has with itself in ⟨∂_a μ, ∂_b μ⟩, from slopes on the halves of points.

    A point that jumps does so for all thetas beyond, which is no noise about the polynomial. Slopes
    on both halves differ by it: ⟨a - b, a - b⟩ / 4 is the noise of their mean.
    """
    m, k = scatter.weights.shape[1], scatter.objective.data_kernel
    signs = jnp.where(jnp.arange(m) < m // 2, 0.5 / max(m // 2, 1), -0.5 / (m - m // 2))
    rows = scatter.y.reshape(-1, scatter.y.shape[2])
    moved = (along[:, :, None] * signs[None, None]).reshape(len(along), -1)
    return moved @ jax.lax.map(lambda weights: k.row_sums(rows, rows, weights), moved).T


def _without_noise(
    metric: Float[Array, "p p"], *noises: Float[Array, "p p"]
) -> tuple[Float[Array, "p p"], Float[Array, " p"]]:
    """What the largest noise leaves of a metric, a fifth in any direction at least.

    And the share of its diagonal that is noise.
    """
    root = jnp.linalg.cholesky(
        metric + jnp.finfo(float).eps * jnp.trace(metric) * jnp.eye(len(metric))
    )

    def compare(noise: Array) -> Array:
        half = jax.scipy.linalg.solve_triangular(root, noise, lower=True)
        return jax.scipy.linalg.solve_triangular(root, half.T, lower=True)

    relative = jnp.stack([compare(noise) for noise in noises])
    largest = jnp.argmax(jnp.trace(relative, axis1=1, axis2=2))
    sizes, directions = jnp.linalg.eigh(relative[largest])
    kept = root @ (directions * jnp.sqrt(jnp.maximum(1 - sizes, _LEAST_KEPT))[None])
    shares = jnp.diag(jnp.stack(noises)[largest]) / (jnp.diag(metric) + jnp.finfo(float).tiny)
    return kept @ kept.T, shares
