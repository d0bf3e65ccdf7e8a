"""The stochastic Lotka-Volterra model: prey and predators with demographic noise."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from owlfi._tools.checks import as_count
from owlfi._tools.special import safe_sqrt
from owlfi.measures import Normal, Uniform
from owlfi.problem.prior import Prior
from owlfi.problem.simulator import Simulator

_START = (100.0, 100.0)
_END_TIME = 1.0


def lotka_volterra(steps: int = 300) -> Simulator:
    """Prey and predators at time 1, started at 100 each; s = 2 steps, d = 2.

    Prey are born at rate θ₁ X, eaten at rate θ₂ X Y (a predator is born), predators die at rate
    θ₃ Y. The chemical Langevin equation of these three reactions,
        dX = (θ₁ X - θ₂ X Y) dt + noise,  dY = (θ₂ X Y - θ₃ Y) dt + noise,
    with noise covariance [[θ₁ X + θ₂ X Y, -θ₂ X Y], [-θ₂ X Y, θ₂ X Y + θ₃ Y]] dt, is followed by
    Euler-Maruyama steps; a step takes two standard normal numbers through the Cholesky factor of
    that covariance, and populations below 0 are set to 0. Usually at theta = (5, 0.025, 6).
    Source: the model of Briol, Barp, Duncan and Girolami, Statistical inference for generative
    models with maximum mean discrepancy (2019). Start, end, number of steps and the observation of
    the last state alone are choices of this library, which no publication states.

    >>> lotka_volterra(2)([5.0, 0.025, 6.0], [[0.0, 0.0, 0.0, 0.0]])
    Array([[787.5,   0. ]], dtype=float64)
    """
    prior = Prior(theta_1=Uniform(0, 10), theta_2=Uniform(0, 0.1), theta_3=Uniform(0, 10))
    noise = Normal(0, 1, dim=2 * as_count("steps", steps))
    return Simulator(_generate, noise, prior.names, prior=prior, theta=[5.0, 0.025, 6.0])


def _generate(theta: Float[Array, " 3"], u: Float[Array, "m s"]) -> Float[Array, "m 2"]:
    increments = u.reshape(u.shape[0], -1, 2).transpose(1, 2, 0)
    dt = _END_TIME / increments.shape[0]

    def step(state: Array, noise: Array) -> tuple[Array, None]:
        prey, predators = state
        births, eaten, deaths = theta[0] * prey, theta[1] * prey * predators, theta[2] * predators
        drift = jnp.stack([births - eaten, eaten - deaths])
        return jax.nn.relu(
            state + drift * dt + jnp.sqrt(dt) * _correlate(births, eaten, deaths, noise)
        ), None

    start = jnp.broadcast_to(jnp.array(_START)[:, None], (2, u.shape[0]))
    return jax.lax.scan(step, start, increments)[0].T


def _correlate(births: Array, eaten: Array, deaths: Array, noise: Array) -> Array:
    """The Cholesky factor of the reactions' covariance times noise; still where all are extinct."""
    first = safe_sqrt(births + eaten)
    cross = -eaten / jnp.where(first > 0, first, 1.0)
    second = safe_sqrt(eaten + deaths - cross**2)
    return jnp.stack([first * noise[0], cross * noise[0] + second * noise[1]])
