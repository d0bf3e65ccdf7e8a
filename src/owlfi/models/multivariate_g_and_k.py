"""The multivariate g-and-k distribution: correlated normals behind the g-and-k transform."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from owlfi._tools.checks import as_count
from owlfi.measures import Normal, Uniform
from owlfi.models.g_and_k import g_and_k_quantile
from owlfi.problem.prior import Prior
from owlfi.problem.simulator import Simulator


def multivariate_g_and_k(dim: int = 10) -> Simulator:
    """z = Σ^(1/2) u for standard normal u, then the g-and-k transform of each entry; s = d = dim.

    Σ is tridiagonal with ones on its diagonal and θ₅ beside it: positive definite, and y defined,
    only for |θ₅| < 1 / (2 cos(π / (dim + 1))). The root is the symmetric one. θ₁ to θ₄ are
    location, scale, skewness and kurtosis; usually theta = (3, 1, 0.1, 0.1, 0.1).
    Source: Drovandi and Pettitt, Likelihood-free Bayesian estimation of multivariate quantile
    distributions (2011).

    >>> multivariate_g_and_k(2)([3.0, 1.0, 0.0, 0.0, 0.0], [[0.0, 1.0]])
    Array([[3., 4.]], dtype=float64)
    """
    prior = Prior(
        theta_1=Uniform(0, 10),
        theta_2=Uniform(0, 5),
        theta_3=Uniform(0, 3),
        theta_4=Uniform(0, 1),
        theta_5=Uniform(-0.5, 0.5),  # definite in every dimension
    )
    return Simulator(
        _generate,
        Normal(0, 1, dim=as_count("dim", dim)),
        prior.names,
        prior=prior,
        theta=[3.0, 1.0, 0.1, 0.1, 0.1],
    )


def _generate(theta: Float[Array, " 5"], u: Float[Array, "m d"]) -> Float[Array, "m d"]:
    return g_and_k_quantile(theta[:4], _correlate(theta[4], u))


def _correlate(beside: Array, u: Float[Array, "m d"]) -> Float[Array, "m d"]:
    """Σ^(1/2) u: the eigenvectors of a tridiagonal Toeplitz matrix are fixed sines."""
    dim = u.shape[1]
    angles = np.pi * np.arange(1, dim + 1) / (dim + 1)
    sines = np.sqrt(2 / (dim + 1)) * np.sin(np.outer(np.arange(1, dim + 1), angles))
    roots = jnp.sqrt(1 + 2 * beside * np.cos(angles))
    return (u @ sines * roots[None]) @ sines
