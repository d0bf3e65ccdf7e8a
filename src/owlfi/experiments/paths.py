"""Simulators whose noise drives a path: many coordinates, of which few directions matter."""

from functools import cache

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from owlfi.experiments.trust_case import make_simulator
from owlfi.experiments.trust_series import stationary_process, toggle_switch
from owlfi.measures import Normal, Uniform
from owlfi.problem.simulator import Simulator

_PEOPLE, _FIRST_ILL, _STEPS, _DT = 1000.0, 10.0, 50, 0.5
_EVERY = 5


def switch() -> Simulator:
    """The toggle switch at its usual theta; d = 1, s = 101."""
    return _at(toggle_switch(), 325.0, 0.25, 0.15)


def process() -> Simulator:
    """The stationary Ornstein-Uhlenbeck process at its usual theta; d = s = 25."""
    return _at(stationary_process(), 1.0, 2.0, 0.8)


@cache
def slow_epidemic() -> Simulator:
    """SIR from 10 infected in 50 steps of 0.5, every fifth number of infected; d = 10, s = 100.

    A step infects h + √h z, h = beta S I dt / N, and as many recover with h = gamma I dt; neither
    is negative, nor more than there are.
    """
    noise = Normal(dim=2 * _STEPS)
    found = make_simulator(_infect, noise, beta=Uniform(0.5, 3), gamma=Uniform(0.1, 1.5))
    return _at(found, 0.8, 0.3)


def _infect(theta: Float[Array, " 2"], u: Float[Array, "m s"]) -> Float[Array, "m d"]:
    def draw(expected: Array, z: Array, most: Array) -> Array:
        h = jnp.maximum(expected * _DT, 1e-8)
        return jnp.clip(h + jnp.sqrt(h) * z, 0.0, most)

    def step(state: tuple[Array, Array], z: Array) -> tuple[tuple[Array, Array], Array]:
        well, ill = state
        infected = draw(theta[0] * well * ill / _PEOPLE, z[0], well)
        recovered = draw(theta[1] * ill, z[1], ill)
        well = jnp.maximum(well - infected, 1e-3)
        ill = jnp.maximum(ill + infected - recovered, 1e-3)
        return (well, ill), ill

    noise = u.reshape(len(u), _STEPS, 2).transpose(1, 2, 0)
    start = jnp.full(len(u), _PEOPLE - _FIRST_ILL), jnp.full(len(u), _FIRST_ILL)
    return jax.lax.scan(step, start, noise)[1][_EVERY - 1 :: _EVERY].T


def _at(simulator: Simulator, *theta: float) -> Simulator:
    """With a usual theta."""
    names, prior = simulator.parameters, simulator.prior
    return Simulator(simulator.generator, simulator.measure, names, prior=prior, theta=theta)
