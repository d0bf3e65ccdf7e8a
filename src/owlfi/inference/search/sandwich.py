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

from owlfi.inference.search.objective import Objective, model_of_rows, witness
from owlfi.problem.real_line import log_slope, to_real


class Sandwich(NamedTuple):
    """The covariance of an estimate, and the Hessian of MMD² there."""

    covariance: Float[Array, "p p"]
    hessian: Float[Array, "p p"]


@eqx.filter_jit
def sandwich(
    objective: Objective, theta: Float[Array, " p"], *, excess: ArrayLike | None = 0.0
) -> Sandwich:
    """Of an estimate theta by a differentiable simulator, with the exact Hessian.

    excess: the squared MMD between the weighted points and the law of the simulator, whose error
        adds to the spread; None for that of independent points, of order 1/m.
    """

    def rows(at: Array) -> Array:
        return objective.simulator.rows(at, objective.points)

    y, tangent = jax.linearize(rows, theta)
    slopes = jax.vmap(tangent)(jnp.eye(theta.shape[0]))
    hessian = jax.hessian(lambda at: objective.of_rows(rows(at)))(theta)
    return _between(objective, y, slopes, hessian, excess)


@eqx.filter_jit
def sandwich_of_rows(
    objective: Objective,
    theta: Float[Array, " p"],
    y: Float[Array, "m d"],
    slopes: Float[Array, "p m d"],
    *,
    excess: ArrayLike | None = 0.0,
) -> Sandwich:
    """From simulations at theta and their derivatives on the real line, however found.

    The Hessian leaves out the second derivatives of the simulator: right where the model is.
    """
    steepness = jnp.exp(log_slope(to_real(theta, objective.ends), objective.ends))
    slopes = slopes / steepness[:, None, None]
    hessian = model_of_rows(objective, y, slopes).hessian
    return _between(objective, y, slopes, hessian, excess)


def _between(
    objective: Objective, y: Array, slopes: Array, hessian: Array, excess: ArrayLike | None
) -> Sandwich:
    k, w, x, shares = objective.kernel, objective.weights, objective.observed, objective.shares
    data = _derivatives(lambda rows: witness(k, x, rows, w), y, slopes)
    spread = 4 * _covariance(data, shares) * jnp.sum(shares**2)
    spread = spread + _of_points(objective, y, slopes, excess)
    definite = jnp.linalg.eigvalsh(hessian)[0] > 0
    curved = jnp.where(definite, hessian, 2 * _gauss_newton(objective, y, slopes))
    half = jnp.linalg.solve(curved, spread)
    return Sandwich(jnp.linalg.solve(curved, half.T), curved)


def _of_points(
    objective: Objective, y: Array, slopes: Array, excess: ArrayLike | None
) -> Float[Array, "p p"]:
    """What independent points would add, times their share of such points' squared error."""
    k, m = objective.kernel, y.shape[0]
    w = jnp.full(m, 1 / m)

    def gap(rows: Array) -> Array:
        return witness(k, rows, rows, w) - witness(k, rows, objective.observed, objective.shares)

    own = 4 / m * _covariance(_derivatives(gap, y, slopes), w)
    independent = (k.diagonal(y).mean() - w @ witness(k, y, y, w)) / m
    return own if excess is None else own * excess / independent


def _derivatives(
    function: Callable[[Array], Array], y: Array, slopes: Array
) -> Float[Array, "p n"]:
    return jax.lax.map(jax.linearize(function, y)[1], slopes)


def _covariance(values: Float[Array, "p n"], shares: Array) -> Float[Array, "p p"]:
    centred = values - (values @ shares)[:, None]
    return (centred * shares) @ centred.T


def _gauss_newton(objective: Objective, y: Array, slopes: Array) -> Float[Array, "p p"]:
    """Σ w_i w_j ∂_a y_i · ∂₁∂₂k(y_i, y_j) · ∂_b y_j, semi-definite for any weights."""
    w, k = objective.weights, objective.kernel

    def slope(other: Array) -> Array:
        return jax.grad(lambda rows: w @ witness(k, rows, other, w))(y)

    changes = jax.lax.map(jax.linearize(slope, y)[1], slopes)
    return jnp.tensordot(slopes, changes, [[1, 2], [1, 2]])
