"""The moving average of order 2: a short time series with Gaussian noise."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from owlfi._tools.checks import as_count
from owlfi.measures import Normal, Uniform
from owlfi.problem.prior import Prior
from owlfi.problem.simulator import Simulator


def moving_average(length: int = 10) -> Simulator:
    """y_t = u_t + θ₁ u_(t-1) + θ₂ u_(t-2) for t = 1 … length, standard normal u; s = length + 2.

    Its distribution is normal (`moving_average_covariance`), so that exact answers are at hand.
    Usually at theta = (0.6, 0.2).
    Source: Marin, Pudlo, Robert and Ryder, Approximate Bayesian computational methods (2012).

    >>> moving_average(2)([0.5, 0.25], [[4.0, 2.0, 1.0, 0.0]])
    Array([[3., 1.]], dtype=float64)
    """
    prior = Prior(theta_1=Uniform(-1, 1), theta_2=Uniform(-1, 1))
    noise = Normal(0, 1, dim=as_count("length", length) + 2)
    return Simulator(_generate, noise, prior.names, prior=prior, theta=[0.6, 0.2])


def _generate(theta: Float[Array, " 2"], u: Float[Array, "m s"]) -> Float[Array, "m d"]:
    return u[:, 2:] + theta[0] * u[:, 1:-1] + theta[1] * u[:, :-2]


def moving_average_covariance(theta: Float[Array, " 2"], length: int) -> Float[Array, "d d"]:
    """The covariance of y, whose mean is 0.

    >>> moving_average_covariance(jnp.array([0.5, 0.25]), 2)
    Array([[1.3125, 0.625 ],
           [0.625 , 1.3125]], dtype=float64)
    """
    bands = (1 + theta[0] ** 2 + theta[1] ** 2, theta[0] * (1 + theta[1]), theta[1])
    eye = jnp.eye
    beside = (band * (eye(length, k=lag) + eye(length, k=-lag)) for lag, band in enumerate(bands))
    return sum(beside, jnp.zeros((length, length))) - bands[0] * eye(length)
