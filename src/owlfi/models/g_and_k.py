"""The g-and-k distribution: four parameters, easy to simulate, no density in closed form."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def g_and_k(theta: Float[Array, " 4"], u: Float[Array, "m s"]) -> Float[Array, "m s"]:
    """y = a + b (1 + 0.8 tanh(g u / 2)) (1 + u²)^k u for standard normal u.

    theta = (a, b, g, k): location, scale, skewness, kurtosis. tanh(g u / 2) is the usual
    (1 - exp(-g u)) / (1 + exp(-g u)) in a form that does not overflow.

    >>> g_and_k(jnp.array([3.0, 1.0, 0.0, 0.0]), jnp.array([[0.0], [1.0]])).ravel()
    Array([3., 4.], dtype=float64)
    """
    a, b, g, k = theta
    return a + b * (1 + 0.8 * jnp.tanh(0.5 * g * u)) * (1 + u**2) ** k * u
