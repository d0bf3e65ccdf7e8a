"""Figure 4: a hundred minimum-distance estimates by equal and by optimal weights.

The multivariate g-and-k with kurtosis held at 0.1, m = 100 and n = 500 as in the composite test.
Unlike the paper's unconstrained search, theta_5 stays where the covariance is positive definite.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key
from matplotlib.figure import Figure

from owlfi.experiments.composite_cases import EQUAL, MEDIAN, OBSERVED, SIMULATED, SOBOL, model
from owlfi.experiments.excess import sample
from owlfi.experiments.experiment import Experiment, Plan, Record, Table, group
from owlfi.inference.minimum_distance import minimum_distance
from owlfi.measures import Uniform
from owlfi.points.sequences import sobol
from owlfi.problem.prior import Prior
from owlfi.problem.problem import Problem
from owlfi.problem.rules import Rule, VStatistic

PRIOR = Prior(
    theta_1=Uniform(-5, 10),
    theta_2=Uniform(0, 5),
    theta_3=Uniform(-3, 3),
    theta_5=Uniform(-0.57, 0.57),
)
RULES: dict[str, Rule] = {
    "V": EQUAL,
    "OW": MEDIAN,
    "OW, Sobol": SOBOL,
    "tuned, Sobol": VStatistic(SIMULATED, sobol),  # tuned at its first estimate
}
_CHUNK = 10
_REFINED = 12  # searches: there are other minima at both ends of theta_3


def run(key: Key[Array, ""], plan: Plan) -> Iterator[Record]:
    """Ten data sets a step, the same ones for every rule, points of its own for each estimate."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, numbers in product(RULES, plan.chunks(_CHUNK)):
            thetas = pool.map(partial(_estimate, key, name), numbers)
            yield {"rule": name, "thetas": list(thetas)}


def _estimate(key: Key[Array, ""], name: str, number: int) -> list[float]:
    data_key, fit_key = jax.random.split(jax.random.fold_in(key, number))
    x = sample(data_key, model(), jnp.asarray(model().theta), OBSERVED)
    problem, retune = Problem(model(), x, prior=PRIOR), name.startswith("tuned")
    estimate = minimum_distance(fit_key, problem, RULES[name], refined=_REFINED, retune=retune)
    return np.asarray(estimate.theta).tolist()


def arrange(records: list[Record]) -> dict[str, Record]:
    """By rule: the estimates, their spread, and how many are far outside the others' range."""
    estimates = _gather_estimates(records)
    low, high = _ranges(estimates)
    truth = np.asarray(model().theta)
    return {
        name: {
            "estimates": thetas.tolist(),
            "median": np.median(thetas, 0).tolist(),
            "iqr": np.subtract(*np.quantile(thetas, [0.75, 0.25], axis=0)).tolist(),
            "rmse": np.sqrt(((thetas - truth) ** 2).mean(0)).tolist(),
            "outliers": ((thetas < low) | (thetas > high)).sum(0).tolist(),
        }
        for name, thetas in estimates.items()
    }


def _gather_estimates(records: list[Record]) -> dict[str, np.ndarray]:
    return {
        name: np.concatenate([np.array(record["thetas"]) for record in part])
        for name, part in group(records, "rule").items()
    }


def _ranges(estimates: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Three interquartile ranges to both sides of the last rule's estimates."""
    first, middle, third = np.quantile(list(estimates.values())[-1], [0.25, 0.5, 0.75], axis=0)
    reach = np.maximum(3 * (third - first), 1e-3)
    return middle - reach, middle + reach


def table(records: list[Record]) -> Table:
    """Spread and outliers of each parameter by each rule."""
    rows = []
    for name, result in arrange(records).items():
        cells = zip(result["rmse"], result["iqr"], result["outliers"], strict=True)
        rows.append((name, *(f"{rmse:.3f}\n{iqr:.3f}\n{out}" for rmse, iqr, out in cells)))
    count = len(next(iter(_gather_estimates(records).values())))
    return Table(
        f"{count} estimates: RMSE, interquartile range, outliers",
        ("rule", *PRIOR.names),
        rows,
        "Outliers: estimates more than three interquartile ranges of the last rule's away.",
    )


def picture(records: list[Record]) -> Figure:
    """Histograms: a row for each rule, a column for each parameter, outliers counted."""
    estimates, results = _gather_estimates(records), arrange(records)
    (low, high), truth = _ranges(estimates), np.asarray(model().theta)
    rows, columns = len(estimates), len(PRIOR.names)
    figure = Figure(figsize=(9, 1.2 * rows + 0.6))
    axes = figure.subplots(rows, columns, sharex="col", sharey="col", squeeze=False)
    for row, (rule, thetas) in zip(axes, estimates.items(), strict=True):
        row[0].set_ylabel(rule)
        for j, ax in enumerate(row):
            outside = results[rule]["outliers"][j]
            ax.hist(thetas[:, j], np.linspace(low[j], high[j], 25), color="C0", alpha=0.7)
            ax.axvline(truth[j], color="k", linewidth=0.8)
            ax.text(1, 0.95, f"{outside} outside", transform=ax.transAxes, ha="right", va="top")
    for ax, name in zip(axes[-1], PRIOR.names, strict=True):
        ax.set_xlabel(name)
    return figure


FIGURE4 = Experiment(
    name="figure4",
    shows="a hundred minimum-distance estimates: optimal weights concentrate, V has outliers",
    takes="3 min",
    repeats=(100, 10),
    steps=lambda plan: len(RULES) * len(plan.chunks(_CHUNK)),
    run=run,
    table=table,
    picture=picture,
    arrange=arrange,
)
