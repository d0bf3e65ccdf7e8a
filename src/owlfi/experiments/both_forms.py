"""Equal weights, and optimal weights with Gaussian and with uniform noise, at one theta."""

from collections.abc import Iterator

import jax
from jaxtyping import Array, Key

from owlfi.experiments.curves import record
from owlfi.experiments.excess import law_of, law_points, median_kernel, repeated_excesses
from owlfi.experiments.experiment import Plan, Record
from owlfi.problem.simulator import Simulator

SIMULATED = 500
EQUAL, GAUSSIAN, UNIFORM = "equal weights", "optimal, Gaussian noise", "optimal, uniform noise"


def both_forms(
    key: Key[Array, ""], simulator: Simulator, theta: Array, x: float, plan: Plan
) -> Iterator[Record]:
    """Points of three curves at x."""
    law_key, kernel_key, key = jax.random.split(key, 3)
    kernel = median_kernel(kernel_key, simulator, theta)
    law = law_of(law_key, simulator, theta, kernel, law_points(plan))
    keys = jax.random.split(key, plan.repeats)
    native = repeated_excesses(keys, simulator, theta, SIMULATED, law, kernel)
    yield record(EQUAL, x, native["v"])
    yield record(GAUSSIAN, x, native["ow"])
    uniform = repeated_excesses(keys, simulator.uniform(), theta, SIMULATED, law, kernel)
    yield record(UNIFORM, x, uniform["ow"])
