"""The g-and-k distribution, easy to simulate and without a density, and its multivariate form."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from owlfi._tools.checks import as_count
from owlfi.measures import Normal, Uniform
from owlfi.problem.prior import Prior
from owlfi.problem.simulator import Simulator


def g_and_k() -> Simulator:
    """y = θ₁ + θ₂ (1 + 0.8 tanh(θ₃ u / 2)) (1 + u²)^θ₄ u for standard normal u; s = d = 1.

    Location, scale, skewness and kurtosis. Usually at theta = (3, 1, 0.1, 0.1).
    Source: Prangle, gk: an R package for the g-and-k and generalised g-and-h distributions (2020).

    >>> g_and_k()([3.0, 1.0, 0.0, 0.0], [0.0, 1.0]).ravel()
    Array([3., 4.], dtype=float64)
    """
    prior, theta = Prior(**_ranges()), [3.0, 1.0, 0.1, 0.1]
    return Simulator(g_and_k_quantile, Normal(0, 1), prior.names, prior=prior, theta=theta)


def _ranges() -> dict[str, Uniform]:
    return {f"theta_{i}": Uniform(0, high) for i, high in enumerate((10, 5, 3, 1), start=1)}


def g_and_k_quantile(theta: Float[Array, " 4"], z: Float[Array, "m d"]) -> Float[Array, "m d"]:
    """The g-and-k transform of standard normal numbers, entry by entry.

    tanh(θ₃ z / 2) is the usual (1 - exp(-θ₃ z)) / (1 + exp(-θ₃ z)), and does not overflow.
    """
    location, scale, skewness, kurtosis = theta
    return location + scale * (1 + 0.8 * jnp.tanh(0.5 * skewness * z)) * (1 + z**2) ** kurtosis * z


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
    prior = Prior(**_ranges(), theta_5=Uniform(-0.5, 0.5))  # definite in every dimension
    noise, theta = Normal(0, 1, dim=as_count("dim", dim)), [3.0, 1.0, 0.1, 0.1, 0.1]
    return Simulator(_generate_rows, noise, prior.names, prior=prior, theta=theta)


def _generate_rows(theta: Float[Array, " 5"], u: Float[Array, "m d"]) -> Float[Array, "m d"]:
    return g_and_k_quantile(theta[:4], _correlate(theta[4], u))


def _correlate(beside: Array, u: Float[Array, "m d"]) -> Float[Array, "m d"]:
    """Σ^(1/2) u: the eigenvectors of a tridiagonal Toeplitz matrix are fixed sines."""
    dim = u.shape[1]
    angles = np.pi * np.arange(1, dim + 1) / (dim + 1)
    sines = np.sqrt(2 / (dim + 1)) * np.sin(np.outer(np.arange(1, dim + 1), angles))
    roots = jnp.sqrt(1 + 2 * beside * np.cos(angles))
    return (u @ sines * roots[None]) @ sines
