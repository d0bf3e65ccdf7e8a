"""The first thing to see: the g-and-k distribution fitted to exchange rates, data to picture."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key
from matplotlib.figure import Figure

from owlfi.experiments.experiment import Table
from owlfi.inference.minimum_distance import minimum_distance
from owlfi.measures import Uniform
from owlfi.models import g_and_k
from owlfi.models.exchange_rates import daily_changes
from owlfi.points.sequences import sobol
from owlfi.problem.prior import Prior
from owlfi.problem.problem import Problem
from owlfi.problem.rules import OptimallyWeighted
from owlfi.problem.simulator import Simulator
from owlfi.results import Estimate
from owlfi.show.plots import hide_frame

PRIOR = Prior(
    location=Uniform(-1.0, 1.0),
    scale=Uniform(0.0, 1.0),
    skewness=Uniform(-2.0, 2.0),
    kurtosis=Uniform(0.0, 1.0),
)
RULE = OptimallyWeighted(128)
_DRAWN = 2**13  # simulations behind the fitted curve


def state_problem() -> Problem:
    """Which g-and-k distribution do daily changes of an exchange rate have?"""
    model = g_and_k()
    simulator = Simulator(model.generator, model.measure, PRIOR.names, prior=PRIOR)
    return Problem(simulator, daily_changes())


def fit(key: Key[Array, ""]) -> Estimate:
    """The minimum-distance estimate."""
    return minimum_distance(key, state_problem(), RULE)


def table(estimate: Estimate) -> Table:
    """The estimate with its standard errors and 90% intervals."""
    columns = [estimate.theta, estimate.standard_errors, *estimate.interval(0.9)]
    rows = [
        (name, *(f"{float(number):.4f}" for number in row))
        for name, *row in zip(estimate.names, *columns, strict=True)
    ]
    cost = f"{estimate.calls:,} simulator calls, squared MMD {float(estimate.squared_mmd):.1e}."
    return Table(
        "g-and-k distribution of daily changes, US against Canadian dollar, in percent",
        ("parameter", "estimate", "std. error", "5%", "95%"),
        rows,
        " ".join([cost, *(f"Warning: {sentence}." for sentence in estimate.warnings)]),
    )


def picture(estimate: Estimate) -> Figure:
    """The rates with the fitted distribution, and the way of the search."""
    figure = Figure(figsize=(6.8, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    problem = state_problem()
    x = np.asarray(problem.observed)[:, 0]
    u = sobol(jax.random.key(0), _DRAWN, problem.simulator.measure)
    y = np.asarray(problem.simulator(estimate.theta, u))[:, 0]
    bins = np.linspace(-1.0, 1.0, 60)
    left.hist(x, bins, density=True, color="0.8", label="observed")
    heights = np.histogram(y, bins)[0] / (_DRAWN * (bins[1] - bins[0]))
    left.stairs(heights, bins, color="C0", label="fitted")
    left.set(xlabel="daily change in percent", yticks=[])
    left.legend(frameon=False)
    values = jnp.zeros(0) if estimate.trace_values is None else estimate.trace_values
    right.plot(np.arange(1, len(values) + 1), values, "o-", markersize=3)
    right.set(xlabel=f"step, {RULE.m} simulations each", ylabel="squared MMD", yscale="log")
    for ax in (left, right):
        hide_frame(ax)
    return figure
