"""Equal weights, and optimal weights with Gaussian and with uniform noise, at one theta."""

from collections.abc import Iterator

import jax
from jaxtyping import Array, Key

from owlfi.experiments.curves import make_point
from owlfi.experiments.excess import law_points, measure_excesses, set_up
from owlfi.experiments.experiment import Plan, Record
from owlfi.problem.simulator import Simulator

SIMULATED = 500
EQUAL, GAUSSIAN, UNIFORM = "equal weights", "optimal, Gaussian noise", "optimal, uniform noise"


def compare_forms(
    key: Key[Array, ""], simulator: Simulator, theta: Array, x: float, plan: Plan
) -> Iterator[Record]:
    """Points of three curves at x."""
    setting, key = set_up(key, simulator, law_points(plan), theta=theta)
    keys = jax.random.split(key, plan.repeats)
    native = measure_excesses(keys, setting, SIMULATED)
    yield make_point(EQUAL, x, native["v"])
    yield make_point(GAUSSIAN, x, native["ow"])
    uniform = measure_excesses(keys, setting._replace(simulator=simulator.uniform()), SIMULATED)
    yield make_point(UNIFORM, x, uniform["ow"])
