"""The bivariate beta distribution: two ratios of sums of gamma variables."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from owlfi._tools.gamma_quantile import gamma_quantile
from owlfi.measures import Exponential, Uniform
from owlfi.problem.prior import Prior
from owlfi.problem.simulator import Simulator


def bivariate_beta() -> Simulator:
    """y = (v₁ / (1 + v₁), v₂ / (1 + v₂)), v₁ = (g₁ + g₃) / (g₄ + g₅), v₂ = (g₂ + g₄) / (g₃ + g₅).

    The g are independent Gamma(θ_i, 1) variables, made from Exponential(1) noise by their quantile
    functions; s = 5, d = 2. Usually at theta = (1, 1, 1, 1, 1), where they are the noise itself.
    Source: Crackel and Flegal, Bayesian inference for a flexible class of bivariate beta
    distributions (2017).

    >>> bivariate_beta()([1.0] * 5, [[1.0, 2.0, 1.0, 2.0, 2.0]])
    Array([[0.33333333, 0.57142857]], dtype=float64)
    """
    prior = Prior(**{f"theta_{i}": Uniform(0, 5) for i in range(1, 6)})
    return Simulator(_generate, Exponential(1, dim=5), prior.names, prior=prior, theta=[1.0] * 5)


def _generate(theta: Float[Array, " 5"], u: Float[Array, "m 5"]) -> Float[Array, "m 2"]:
    g = gamma_quantile(theta[None], u)
    tops = jnp.stack([g[:, 0] + g[:, 2], g[:, 1] + g[:, 3]], axis=1)
    bottoms = jnp.stack([g[:, 3] + g[:, 4], g[:, 2] + g[:, 4]], axis=1)
    return tops / (tops + bottoms)
