"""How near to the truth for how many simulator calls, beside the exact maximum likelihood."""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key
from matplotlib.figure import Figure

from owlfi import models
from owlfi.experiments.excess import sample
from owlfi.experiments.experiment import Experiment, Plan, Record, Table, group
from owlfi.experiments.likelihoods import (
    LogLikelihood,
    g_and_k_log_likelihood,
    maximum_likelihood,
    moving_average_log_likelihood,
)
from owlfi.inference import minimum_distance
from owlfi.measures import Uniform
from owlfi.points.sequences import iid, sobol
from owlfi.problem.prior import Prior
from owlfi.problem.problem import Problem
from owlfi.problem.rules import Points, VStatistic
from owlfi.problem.simulator import Simulator
from owlfi.show.plots import hide_frame

OBSERVED = 200
LEVEL = 0.9


class Task(NamedTuple):
    """A simulator with its prior and a known likelihood, and how much to spend on a fit."""

    simulator: Simulator
    prior: Prior
    theta: tuple[float, ...]
    log_likelihood: LogLikelihood
    m: int
    starts: int
    refined: int


def _g_and_k() -> Task:
    prior = Prior(
        theta_1=Uniform(0, 10), theta_2=Uniform(0, 5), theta_3=Uniform(0, 3), theta_4=Uniform(0, 1)
    )
    theta = (3.0, 1.0, 0.5, 0.2)
    return Task(models.g_and_k(), prior, theta, g_and_k_log_likelihood, 208, 16, 2)


def _moving_average() -> Task:
    prior = Prior(theta_1=Uniform(-1, 1), theta_2=Uniform(-1, 1))
    model, likelihood = models.moving_average(10), moving_average_log_likelihood
    return Task(model, prior, (0.6, 0.2), likelihood, 200, 8, 1)


TASKS = {"g-and-k": _g_and_k, "MA(2)": _moving_average}


RULES: dict[str, tuple[Points, bool]] = {
    "V, iid points": (iid, False),
    "V, Sobol points": (sobol, False),
    "tuned, Sobol points": (sobol, True),  # at the first estimate, so without a run beforehand
}
_NAMES = (*RULES, "exact MLE")


def run(key: Key[Array, ""], plan: Plan) -> Iterator[Record]:
    """One data set after the other, each fitted by every rule."""
    for name, make in TASKS.items():
        task = make()
        truth = jnp.array(task.theta)
        likelihood = partial(maximum_likelihood, task.log_likelihood, task.prior, truth)
        for number in range(plan.repeats):
            data_key, fit_key = jax.random.split(jax.random.fold_in(key, number))
            x = sample(data_key, task.simulator, truth, OBSERVED)
            yield {"task": name, "exact MLE": _score(likelihood(x), task)} | {
                rule: _estimate(fit_key, Problem(task.simulator, x, prior=task.prior), rule, task)
                for rule in RULES
            }


def _estimate(key: Key[Array, ""], problem: Problem, rule: str, task: Task) -> Record:
    points, retune = RULES[rule]
    estimate = minimum_distance(
        key,
        problem,
        VStatistic(task.m, points),
        starts=task.starts,
        refined=task.refined,
        whiten=problem.observed.shape[1] > 1,
        retune=retune,
    )
    low, high = (np.asarray(end) for end in estimate.interval(LEVEL))
    truth = np.array(task.theta)
    return _score(np.asarray(estimate.theta), task) | {
        "covered": ((low <= truth) & (truth <= high)).tolist(),
        "calls": estimate.calls,
        "gradient_calls": estimate.gradient_calls,
    }


def _score(theta: np.ndarray, task: Task) -> Record:
    low, high = (np.asarray(end) for end in task.prior.bounds)
    errors = (np.asarray(theta) - np.array(task.theta)) / ((high - low) / 12**0.5)
    return {"theta": np.asarray(theta).tolist(), "scaled_errors": errors.tolist()}


def arrange(records: list[Record]) -> dict[str, Record]:
    """By task and rule: RMSE over the prior's sd, mean over the parameters; coverage; calls."""
    return {name: _summarise(part) for name, part in group(records, "task").items()}


def _summarise(records: list[Record]) -> Record:
    result: Record = {"data_sets": len(records)}
    for name in _NAMES:
        errors = np.array([record[name]["scaled_errors"] for record in records])
        result[name] = {"rmse": float(np.sqrt((errors**2).mean(0)).mean())}
        result[name]["estimates"] = [record[name]["theta"] for record in records]
        if "covered" in records[0][name]:
            covered = np.array([record[name]["covered"] for record in records])
            result[name]["coverage"] = float(covered.mean())
            for count in ("calls", "gradient_calls"):
                result[name][count] = float(np.mean([record[name][count] for record in records]))
    for name in _NAMES:
        result[name]["over_mle"] = result[name]["rmse"] / result["exact MLE"]["rmse"]
    return result


def table(records: list[Record]) -> Table:
    """A row for each task and rule."""
    rows: list[tuple[str, ...]] = []
    for task, result in arrange(records).items():
        for name in _NAMES:
            cell = result[name]
            errors = f"{cell['rmse']:.3f}", f"{cell['over_mle']:.2f}"
            rows.append((f"{task}, {name}", *errors, *_format_costs(cell)))
    return Table(
        f"Minimum-distance estimates from n = {OBSERVED} observations",
        ("task, rule", "RMSE", "over MLE", "90% intervals cover", "calls", "derivatives"),
        rows,
        "RMSE in units of the prior's standard deviation, mean over the parameters. Derivatives: "
        "of one simulated row by one parameter.",
    )


def _format_costs(cell: Record) -> tuple[str, ...]:
    if "calls" not in cell:
        return "", "", ""
    return f"{cell['coverage']:.0%}", f"{cell['calls']:,.0f}", f"{cell['gradient_calls']:,.0f}"


def picture(records: list[Record]) -> Figure:
    """RMSE of each rule, a panel for each task."""
    results = arrange(records)
    figure = Figure(figsize=(7.2, 2.8), layout="constrained")
    axes = figure.subplots(1, len(results), squeeze=False)[0]
    for ax, (task, result) in zip(axes, results.items(), strict=True):
        colors = ["0.6", "0.6", "C0", "k"]
        ax.barh(_NAMES, [result[name]["rmse"] for name in _NAMES], color=colors)
        ax.set(title=task, xlabel="RMSE / prior sd")
        hide_frame(ax)
    return figure


ACCURACY = Experiment(
    name="accuracy",
    shows="estimates for a few thousand simulator calls, beside the exact maximum likelihood",
    takes="5 min",
    repeats=60,
    quick_repeats=5,
    steps=lambda plan: len(TASKS) * plan.repeats,
    run=run,
    table=table,
    picture=picture,
    arrange=arrange,
)
