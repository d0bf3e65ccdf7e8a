"""How near to the truth for how many simulator calls, beside the exact maximum likelihood."""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Key
from matplotlib.figure import Figure

from owlfi.experiments.experiment import Experiment, Plan, Record, Table, group
from owlfi.experiments.trust.case import Case
from owlfi.experiments.trust.problems import PROBLEMS
from owlfi.inference.minimum_distance import minimum_distance
from owlfi.points.sequences import iid, sobol
from owlfi.problem.problem import Problem
from owlfi.problem.rules import Points, VStatistic

LEVEL = 0.9


class Task(NamedTuple):
    """A problem whose likelihood is known, and how much to spend on a fit."""

    case: Case
    m: int
    starts: int
    refined: int


TASKS = {
    "g-and-k": Task(PROBLEMS["g-and-k"], 208, 16, 2),
    "MA(2)": Task(PROBLEMS["MA(2)"], 200, 8, 1),
}
RULES: dict[str, tuple[Points, bool]] = {
    "V, iid points": (iid, False),
    "V, Sobol points": (sobol, False),
    "tuned, Sobol points": (sobol, True),  # at the first estimate, so without a run beforehand
}
_NAMES = (*RULES, "exact MLE")


def run(key: Key[Array, ""], plan: Plan) -> Iterator[Record]:
    """One data set after the other, each fitted by every rule."""
    for (name, task), number in product(TASKS.items(), range(plan.repeats)):
        data_key, fit_key = jax.random.split(jax.random.fold_in(key, number))
        x = task.case.observe(data_key)
        record: Record = {"task": name, "exact MLE": {"theta": task.case.refer(x)}}
        problem = task.case.pose(x)
        yield record | {rule: _estimate(fit_key, problem, rule, task) for rule in RULES}


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
    truth = np.array(task.case.theta)
    return {
        "theta": np.asarray(estimate.theta).tolist(),
        "coverage": ((low <= truth) & (truth <= high)).tolist(),
        "calls": estimate.calls,
        "gradient_calls": estimate.gradient_calls,
    }


def arrange(records: list[Record]) -> dict[str, Record]:
    """By task and rule: RMSE over the prior's sd, mean over the parameters; coverage; calls."""
    return {
        name: _summarise(TASKS[name].case, part) for name, part in group(records, "task").items()
    }


def _summarise(case: Case, records: list[Record]) -> Record:
    result: Record = {"data_sets": len(records)}
    for name in _NAMES:
        thetas = [r[name]["theta"] for r in records]
        result[name] = {"rmse": case.rmse(thetas), "estimates": thetas}
        if name in RULES:
            for mean in ("coverage", "calls", "gradient_calls"):
                result[name][mean] = float(np.mean([r[name][mean] for r in records]))
    for name in _NAMES:
        result[name]["over_mle"] = result[name]["rmse"] / result["exact MLE"]["rmse"]
    return result


def table(records: list[Record]) -> Table:
    """A row for each task and rule."""
    formats = {"rmse": ".3f", "over_mle": ".2f", "coverage": ".0%"}
    formats |= dict.fromkeys(("calls", "gradient_calls"), ",.0f")
    rows = []
    for (task, result), name in product(arrange(records).items(), _NAMES):
        cell = result[name]
        numbers = (format(cell[c], form) if c in cell else "" for c, form in formats.items())
        rows.append((f"{task}, {name}", *numbers))
    return Table(
        "Minimum-distance estimates from n = 200 observations",
        ("task, rule", "RMSE", "over MLE", "90% intervals cover", "calls", "derivatives"),
        rows,
        "RMSE in units of the prior's standard deviation, mean over the parameters. Derivatives: "
        "of one simulated row by one parameter.",
    )


def picture(records: list[Record]) -> Figure:
    """RMSE of each rule, a panel for each task."""
    results = arrange(records)
    figure = Figure(figsize=(7.2, 2.8))
    axes = figure.subplots(1, len(results), squeeze=False)[0]
    for ax, (task, result) in zip(axes, results.items(), strict=True):
        colors = ["0.6", "0.6", "C0", "k"]
        ax.barh(_NAMES, [result[name]["rmse"] for name in _NAMES], color=colors)
        ax.set(title=task, xlabel="RMSE / prior sd")
    return figure


ACCURACY = Experiment(
    name="accuracy",
    shows="estimates for a few thousand simulator calls, beside the exact maximum likelihood",
    takes="8 min",
    repeats=(60, 5),
    steps=lambda plan: len(TASKS) * plan.repeats,
    run=run,
    table=table,
    picture=picture,
    arrange=arrange,
)
