"""Without any effort of the user: the error of the default rule against independent draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ordinary_simulators import SIMULATORS, SMOOTH
from owlfi import OptimallyWeighted, Problem, Simulator, VStatistic, iid, sobol

DESIGNS, LAW = 20, 2**13
ROUGH = [function for function in SIMULATORS if function not in SMOOTH]


def ratio_of_excess(function, prior, designs=DESIGNS):
    """The excess of tuned weights over that of independent draws, medians over designs."""
    simulator = Simulator.from_random(function, prior.names, prior=prior)
    theta = prior.from_uniform(jnp.full((1, len(prior.names)), 0.6))[0]
    observed = simulator(theta, iid(jax.random.key(0), 200, simulator.measure))
    problem = Problem(simulator, observed)
    law = simulator(theta, sobol(jax.random.key(1), LAW, simulator.measure))
    k, shares = problem.data_kernel, jnp.full(LAW, 1 / LAW)
    norm2 = k.self_sum(law, shares)

    def excess(rule, i):
        quadrature = rule.quadrature(jax.random.key(i), problem)
        y, w = simulator(theta, quadrature.points), quadrature.weights
        return float(k.self_sum(y, w) - 2 * w @ k.row_sums(y, law, shares) + norm2)

    tuned, equal = (
        np.median([excess(rule, i) for i in range(designs)])
        for rule in (OptimallyWeighted(m=256), VStatistic(m=256))
    )
    print(function.__name__, simulator.measure.dim, tuned, equal, tuned / equal, flush=True)
    return tuned / equal


@pytest.mark.slow
@pytest.mark.parametrize("function", SMOOTH)
def test_smooth_simulators_gain_five_times(function):
    assert ratio_of_excess(function, SMOOTH[function]) < 0.2


@pytest.mark.slow
@pytest.mark.parametrize("function", ROUGH)
def test_no_simulator_loses(function):
    assert ratio_of_excess(function, SIMULATORS[function]) < 1.1
