"""Exact maximum likelihood, where there is one to compare with."""

from collections.abc import Callable
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
from jax.scipy.stats import multivariate_normal, norm
from jaxtyping import Array, Float

from owlfi.models.g_and_k import g_and_k_quantile
from owlfi.models.moving_average import moving_average_covariance
from owlfi.problem.prior import Prior

LogLikelihood = Callable[[Array, Array], Array]


def g_and_k_log_likelihood(theta: Float[Array, " 4"], x: Float[Array, "n 1"]) -> Array:
    """Σ log φ(z_i) - log Q'(z_i), where the quantile function Q has Q(z_i) = x_i."""
    quantile = partial(g_and_k_quantile, theta)
    z = jax.lax.stop_gradient(_inverse(quantile, x))
    one = jax.vmap(jax.grad(lambda number: quantile(number[None, None])[0, 0]))
    # One Newton step passes the derivative by theta through the search for z.
    z = z - (quantile(z) - x) / jax.lax.stop_gradient(one(z[:, 0])[:, None])
    return (norm.logpdf(z[:, 0]) - jnp.log(one(z[:, 0]))).sum()


def _inverse(quantile: Callable[[Array], Array], x: Array) -> Array:
    def halve(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        below = quantile(middle) < x
        return jnp.where(below, middle, low), jnp.where(below, high, middle)

    ends = jnp.full_like(x, -12.0), jnp.full_like(x, 12.0)
    return jax.lax.fori_loop(0, 60, halve, ends)[0]


def moving_average_log_likelihood(theta: Float[Array, " 2"], x: Float[Array, "n d"]) -> Array:
    """That of the normal distribution."""
    covariance = moving_average_covariance(theta, x.shape[1])
    zeros = jnp.zeros_like(x)
    return jnp.sum(multivariate_normal.logpdf(x, zeros, covariance[None]))


def maximum_likelihood(
    log_likelihood: LogLikelihood, prior: Prior, start: Array, x: Array
) -> Float[np.ndarray, " p"]:
    """The maximum inside the support of the prior, from a start near it."""
    slope = _compile_slope(log_likelihood)
    low, high = (np.asarray(end) for end in prior.bounds)
    width = high - low

    def negative(place: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = slope(jnp.asarray(low + width * place), x)
        return -float(value), -width * np.asarray(gradient)

    first = (np.asarray(start) - low) / width  # parameters may differ in size by far
    bounds = scipy.optimize.Bounds(1e-4, 1 - 1e-4)
    return low + width * scipy.optimize.minimize(negative, first, jac=True, bounds=bounds).x


@cache
def _compile_slope(log_likelihood: LogLikelihood) -> Callable[[Array, Array], tuple[Array, Array]]:
    return jax.jit(jax.value_and_grad(log_likelihood))
