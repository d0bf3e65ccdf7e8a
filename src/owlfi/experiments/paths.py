"""Simulators whose noise drives a path: many coordinates, of which few directions matter."""

from functools import cache, partial

from owlfi.experiments.trust_case import make_simulator
from owlfi.experiments.trust_series import (
    SIR_STEPS,
    spread_illness,
    stationary_process,
    toggle_switch,
)
from owlfi.measures import Normal, Uniform
from owlfi.problem.simulator import Simulator


def switch() -> Simulator:
    """The toggle switch at its usual theta; d = 1, s = 101."""
    return _at(toggle_switch(), 325.0, 0.25, 0.15)


def process() -> Simulator:
    """The stationary Ornstein-Uhlenbeck process at its usual theta; d = s = 25."""
    return _at(stationary_process(), 1.0, 2.0, 0.8)


@cache
def slow_epidemic() -> Simulator:
    """SIR from 10 infected in 50 steps of 0.5, every fifth number of infected; d = 10, s = 100."""
    noise = Normal(dim=2 * SIR_STEPS)
    found = make_simulator(_spread_slowly, noise, beta=Uniform(0.5, 3), gamma=Uniform(0.1, 1.5))
    return _at(found, 0.8, 0.3)


_spread_slowly = partial(spread_illness, first=10.0, dt=0.5, bounded=True)


def _at(simulator: Simulator, *theta: float) -> Simulator:
    """With a usual theta."""
    names, prior = simulator.parameters, simulator.prior
    return Simulator(simulator.generator, simulator.measure, names, prior=prior, theta=theta)
