"""Which estimator, and how many simulations? An answer from a small pilot of the simulator."""

import textwrap
import time
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from owlfi._tools.checks import as_count
from owlfi.kernels import SquaredExponential, as_kernel
from owlfi.kernels.default_kernel import default_kernel
from owlfi.points.sequences import sobol
from owlfi.problem.checks import as_theta
from owlfi.problem.learned_coordinates import learn_coordinates
from owlfi.problem.rules import OptimallyWeighted, Rule, VStatistic
from owlfi.problem.simulations import Simulations, simulate
from owlfi.problem.simulator import Simulator, as_simulator
from owlfi.problem.tuned_design import learns
from owlfi.weights.certificate import Verdict
from owlfi.weights.quadrature import Quadrature, unweighted
from owlfi.weights.tuned import FEWEST, tuned_weights

_PILOT = 128
_COLUMNS = 88  # of text at the prompt
_LARGEST_DENSE = 4096
_FLOPS = 5e9  # a second, of one core's factorisations
_SLOW = 0.1  # seconds a run, more than compiling may take
_FASTEST_RATE = 6.0  # powers of m that a small pilot may promise


@dataclass(frozen=True, repr=False)
class Recommendation:
    """What to use for a budget, and why; shown as its text.

    >>> from owlfi import models
    >>> type(recommend(models.two_moons(), 64).rule).__name__
    'OptimallyWeighted'
    """

    rule: Rule
    m: int
    excess: float
    """Estimated excess squared MMD of the rule, extrapolated from the pilot: a rough number."""
    alternative: float
    """The same for the other kind of weights in the same time."""
    seconds_per_run: float
    pilot_runs: int
    text: str

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return textwrap.fill(self.text, _COLUMNS)


def recommend(
    simulator: Simulator,
    budget: int,
    *,
    theta: Any = None,
    data_kernel: Any = None,
    key: Key[Array, ""] | None = None,
) -> Recommendation:
    """Optimal or equal weights, and with how many points?

    budget: the simulations that can be made for one theta, the pilot's included.
    theta: where the pilot is run; the simulator's usual theta, or the median of its prior.
    data_kernel: k; the `default_kernel` of the pilot's y where left out.

    A pilot of at most 128 Sobol points is run and timed, once more in learned coordinates where the
    simulator has derivatives and 4 dimensions of noise or more. The certificates of the whole pilot
    and of its first half give a rate in m, which is extrapolated to the budget. The comparison is
    at equal time: equal weights get as many more simulations as computing optimal ones would pay
    for (the paper's Figure 2: the dearer a simulation and the smoother y, the better optimal
    weights).

    Raises ValueError for a budget below 8 and a simulator without theta and prior.

    >>> from owlfi import models
    >>> recommend(models.two_moons(), 256).m
    256
    """
    budget = as_count("budget", budget, 2 * FEWEST)
    key = jax.random.key(0) if key is None else key
    theta = _choose_theta(as_simulator(simulator), theta)
    size = 2 ** int(np.log2(min(_PILOT, budget)))
    u = sobol(key, size, simulator.measure)
    y, calls, seconds = _run_pilot(simulator, theta, u)
    k = _kernel_of_pilot(y) if data_kernel is None else as_kernel(data_kernel)
    noise, learning = simulator.measure, 0
    if learns(noise) and simulator.runtime.differentiates:
        noise, learning = learn_coordinates(key, simulator, k, theta)
        u = sobol(key, size, noise)
        y, again, seconds = _run_pilot(simulator, theta, u)
        calls += learning + again
    whole, half = (tuned_weights(k, noise, u[:n], y[:n]) for n in (size, size // 2))
    m = min(budget, _LARGEST_DENSE)
    more = budget + int(min(_weighing(m) / seconds, 1e6 * budget))
    optimal, equal = (
        _extrapolate(whole, half, field, points)
        for field, points in (("excess", m), ("equal", more))
    )
    return _answer(whole, m, more, optimal, equal, seconds, calls)


def _choose_theta(simulator: Simulator, theta: Any) -> Any:
    if theta is not None:
        return as_theta(theta, simulator.parameters)
    if simulator.theta is not None:
        return simulator.theta
    if simulator.prior is None:
        raise ValueError("the simulator has neither a usual theta nor a prior; give theta")
    middle = jnp.full((1, len(simulator.parameters)), 0.5)
    return simulator.prior.from_uniform(middle)[0]


def _run_pilot(simulator: Simulator, theta: Any, u: Array) -> tuple[Array, int, float]:
    """y (m, d), simulator calls, and the seconds of one.

    Fast simulators are timed on all points again, now that they are compiled.
    """

    def measure(check: bool) -> tuple[Simulations, float]:
        start = time.perf_counter()
        runs = jax.block_until_ready(simulate(simulator, theta, unweighted(u), check=check))
        return runs, max((time.perf_counter() - start) / runs.calls, 1e-9)

    runs, seconds = measure(check=True)
    if not simulator.runtime.compiles or seconds > _SLOW:
        return runs.y[0], runs.calls, seconds
    again, seconds = measure(check=False)
    return runs.y[0], runs.calls + again.calls, seconds


def _kernel_of_pilot(y: Array) -> SquaredExponential:
    if bool((y == y[:1]).all()):  # any kernel shows that nothing varies
        return SquaredExponential(jnp.array(1.0))
    return default_kernel(y, name="y of the pilot")


def _weighing(m: int) -> float:
    """Seconds to compute m optimal weights."""
    return m**3 / 3 / _FLOPS


def _extrapolate(whole: Quadrature, half: Quadrature, field: str, m: int) -> float:
    large, small = (float(getattr(q.certificate, field)) for q in (whole, half))
    if not (large > 0 and small > 0):
        return 0.0
    rate = float(np.clip(np.log2(small / large), 1.0, _FASTEST_RATE))
    return large * (m / whole.m) ** -rate


def _answer(
    pilot: Quadrature, m: int, more: int, optimal: float, equal: float, seconds: float, calls: int
) -> Recommendation:
    assert pilot.certificate is not None
    weighted = int(pilot.certificate.verdict) == Verdict.WEIGHTED and optimal < equal
    cost = f"A simulation takes {seconds:.1e} s, computing {m} weights {_weighing(m):.1e} s. "
    versus = (
        f"In the same time, {m} points with optimal weights are expected to be off by "
        f"{optimal:.1e}, {more} with equal weights by {equal:.1e} (squared MMD). "
    )
    rule: Rule = OptimallyWeighted(m=m) if weighted else VStatistic(m=more, points=sobol)
    advice = f"Use {'OptimallyWeighted' if weighted else 'VStatistic'}(m={m if weighted else more})"
    advice += ". " if weighted else " on sobol points. "
    first, second = (optimal, equal) if weighted else (equal, optimal)
    return Recommendation(
        rule,
        m if weighted else more,
        first,
        second,
        seconds,
        calls,
        f"{advice}{cost}{versus}The pilot of {pilot.m} points says: {pilot.explain()}",
    )
