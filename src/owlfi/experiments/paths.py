"""Simulators whose noise drives a path: many coordinates, of which few directions matter."""

from functools import cache, partial

from owlfi.experiments.trust.case import make_simulator
from owlfi.experiments.trust.series import (
    SIR_STEPS,
    spread_illness,
    stationary_process,
    toggle_switch,
)
from owlfi.measures import Normal, Uniform
from owlfi.problem.simulator import Simulator


def switch() -> Simulator:
    """The toggle switch at its usual theta; d = 1, s = 101."""
    return toggle_switch().replace(theta=(325.0, 0.25, 0.15))


def process() -> Simulator:
    """The stationary Ornstein-Uhlenbeck process at its usual theta; d = s = 25."""
    return stationary_process().replace(theta=(1.0, 2.0, 0.8))


@cache
def slow_epidemic() -> Simulator:
    """SIR from 10 infected in 50 steps of 0.5, every fifth number of infected; d = 10, s = 100."""
    noise = Normal(dim=2 * SIR_STEPS)
    found = make_simulator(_spread_slowly, noise, beta=Uniform(0.5, 3), gamma=Uniform(0.1, 1.5))
    return found.replace(theta=(0.8, 0.3))


_spread_slowly = partial(spread_illness, first=10.0, dt=0.5, bounded=True)
