"""The g-and-k distribution: four parameters, easy to simulate, no density in closed form."""

import jax.numpy as jnp
from jaxtyping import Array, Float

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
    prior = Prior(
        theta_1=Uniform(0, 10), theta_2=Uniform(0, 5), theta_3=Uniform(0, 3), theta_4=Uniform(0, 1)
    )
    return Simulator(
        g_and_k_quantile, Normal(0, 1), prior.names, prior=prior, theta=[3.0, 1.0, 0.1, 0.1]
    )


def g_and_k_quantile(theta: Float[Array, " 4"], z: Float[Array, "m d"]) -> Float[Array, "m d"]:
    """The g-and-k transform of standard normal numbers, entry by entry.

    tanh(θ₃ z / 2) is the usual (1 - exp(-θ₃ z)) / (1 + exp(-θ₃ z)), and does not overflow.
    """
    location, scale, skewness, kurtosis = theta
    return location + scale * (1 + 0.8 * jnp.tanh(0.5 * skewness * z)) * (1 + z**2) ** kurtosis * z
