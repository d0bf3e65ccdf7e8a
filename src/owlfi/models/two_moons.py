"""Two moons: a crescent in the plane, with a posterior of two modes."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from owlfi.measures import Normal, Product, Uniform
from owlfi.problem.prior import Prior
from owlfi.problem.simulator import Simulator


def two_moons() -> Simulator:
    """y = (r cos a + 0.25 - |θ₁ + θ₂| / √2, r sin a + (θ₂ - θ₁) / √2); s = d = 2.

    The noise is the angle a, uniform on (-π/2, π/2), and the radius r, normal with mean 0.1 and
    standard deviation 0.01. Usually at theta = (0, 0).
    Source: Greenberg, Nonnenmacher and Macke, Automatic posterior transformation (2019).

    >>> two_moons()([0.0, 0.0], [[0.0, 0.1]])
    Array([[0.35, 0.  ]], dtype=float64)
    """
    prior = Prior(theta_1=Uniform(-1, 1), theta_2=Uniform(-1, 1))
    noise = Product(Uniform(-np.pi / 2, np.pi / 2), Normal(0.1, 0.01))
    return Simulator(_generate, noise, prior.names, prior=prior, theta=[0.0, 0.0])


def _generate(theta: Float[Array, " 2"], u: Float[Array, "m 2"]) -> Float[Array, "m 2"]:
    angle, radius = u.T
    crescent = jnp.stack([radius * jnp.cos(angle) + 0.25, radius * jnp.sin(angle)], axis=1)
    shift = jnp.stack([-jnp.abs(theta[0] + theta[1]), theta[1] - theta[0]]) / np.sqrt(2)
    return crescent + shift[None]
