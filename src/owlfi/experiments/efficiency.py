"""The efficient discrepancy beside exact maximum likelihood, on clean and on contaminated data."""

import time
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, NamedTuple
from zlib import crc32

import jax
import numpy as np
from jaxtyping import Array, Float, Key
from matplotlib.figure import Figure

from owlfi._tools.keys import numpy_generator
from owlfi.experiments.experiment import Experiment, Plan, Record, Table, group
from owlfi.experiments.trust.case import Case
from owlfi.experiments.trust.estimates import measure_coverage, read_result
from owlfi.experiments.trust.problems import PROBLEMS
from owlfi.inference.minimum_distance import minimum_distance
from owlfi.points.sequences import sobol
from owlfi.problem.problem import Problem
from owlfi.problem.rules import Rule, VStatistic
from owlfi.results.health import keep_quiet

SHARE = 0.1  # of the rows, that come from elsewhere
METHODS = ("plain MMD", "efficient")
_ALL, _SOME = Fraction(1), Fraction(3, 10)


class Task(NamedTuple):
    """A problem, and how its data are spoilt."""

    case: Case
    spoilt: Mapping[str, Fraction]
    """How, and how many data sets for each repeat."""


def _take(name: str, m: int) -> Case:
    """A problem of the trust experiment, on so many Sobol points."""
    return PROBLEMS[name]._replace(rule=VStatistic(m, sobol))


_ONCE = {"clean": _SOME}
_TWICE = {"clean": _SOME, "far": _SOME}
_OFTEN = {"clean": _ALL, "far": _ALL, "scattered": _SOME, "near cluster": _SOME}
TASKS = {
    "g-and-k": Task(_take("g-and-k", 96), _OFTEN),
    "MA(2)": Task(_take("MA(2)", 128), _OFTEN),
    "log-normal copula": Task(_take("log-normal copula", 256), _TWICE),
    "Ornstein-Uhlenbeck": Task(_take("Ornstein-Uhlenbeck, stationary", 256), _TWICE),
    "bivariate beta": Task(_take("bivariate beta", 128), _ONCE),
    "M/G/1 queue": Task(_take("M/G/1 queue", 128), _ONCE),
}
_QUICK = (("g-and-k", "clean"), ("g-and-k", "far"))


def spoil(key: Key[Array, ""], x: Float[np.ndarray, "n d"], how: str) -> Float[np.ndarray, "n d"]:
    """The rows with the first tenth replaced.

    far: around 50. scattered: uniform over ten times the range of each column. near cluster: a
    twentieth of a standard deviation around the 90% quantile of each column.
    """
    if how == "clean":
        return x
    rng, strays = numpy_generator(key), round(SHARE * len(x))
    shape = (strays, x.shape[1])
    if how == "far":
        rows = 50 + rng.standard_normal(shape)
    elif how == "scattered":
        low, high = x.min(0), x.max(0)
        rows = (low + high) / 2 + 10 * (high - low) * (rng.random(shape) - 0.5)
    else:
        rows = np.quantile(x, 0.9, axis=0) + 0.05 * x.std(0) * rng.standard_normal(shape)
    return np.concatenate([rows, x[strays:]])


def list_steps(plan: Plan) -> list[tuple[str, str, int]]:
    """Task, spoiling and number of each data set: more repeats leave the first as they are."""
    return [
        (name, how, number)
        for repeat in range(plan.repeats)
        for name, task in TASKS.items()
        for how, share in task.spoilt.items()
        for number in range(int(share * repeat), int(share * (repeat + 1)))
        if not plan.quick or (name, how) in _QUICK
    ]


def run(key: Key[Array, ""], plan: Plan, skip: int = 0) -> Iterator[Record]:
    """One data set after the other; all spoilings of a number have the other rows in common."""
    for name, how, number in list_steps(plan)[skip:]:
        case = TASKS[name].case
        own = jax.random.fold_in(jax.random.fold_in(key, crc32(name.encode())), number)
        data_key, stray_key, fit_key = jax.random.split(own, 3)
        x = np.asarray(case.observe(data_key))
        kept = x if how == "clean" else x[round(SHARE * case.n) :]
        record = {"task": name, "spoilt": how, "number": number, "MLE": case.refer(kept)}
        problem = case.pose(spoil(stray_key, x, how))
        yield record | {method: fit(fit_key, problem, case.rule, method) for method in METHODS}


def fit(key: Key[Array, ""], problem: Problem, rule: Rule, method: str) -> Record:
    """One estimate with what it says of itself."""
    discrepancy = "efficient" if method == "efficient" else "mmd"
    options: dict[str, Any] = {"starts": 8, "refined": 1, "whiten": problem.observed.shape[1] > 1}
    begin = time.process_time()
    with keep_quiet():
        found = minimum_distance(key, problem, rule, discrepancy=discrepancy, **options)
    return read_result(found) | {
        "seconds": time.process_time() - begin,
        "mass": found.mass,
        "misfit": found.misfit,
        "outliers": list(found.outliers),
    }


def arrange(records: list[Record]) -> dict[str, Record]:
    """By task and spoiling: errors, beside the likelihood's of the rows that are not strays."""
    return {
        f"{name}, {how}": _summarise(TASKS[name].case, how, cell)
        for name, part in group(records, "task").items()
        for how, cell in group(part, "spoilt").items()
    }


def _summarise(case: Case, how: str, records: list[Record]) -> Record:
    result: Record = {"data_sets": len(records)}
    if records[0]["MLE"] is not None:
        result["MLE"] = {"rmse": case.rmse([r["MLE"] for r in records])}
    for method in METHODS:
        fits = [r[method] for r in records]
        result[method] = {"rmse": case.rmse([f["theta"] for f in fits])} | _judge(case, how, fits)
        if "MLE" in result:
            result[method]["over_mle"] = result[method]["rmse"] / result["MLE"]["rmse"]
    return result


def _judge(case: Case, how: str, fits: list[Record]) -> Record:
    truth = np.array(case.theta)
    low, high = (np.array([f[end] for f in fits]) for end in ("low", "high"))
    inside = (low <= truth) & (truth <= high)
    strays = 0 if how == "clean" else round(SHARE * case.n)
    found = [np.array(f["outliers"], int) for f in fits]
    return measure_coverage(truth, fits) | {
        "coverages": inside.mean(0).tolist(),
        "warned": float(np.mean([bool(f["warnings"]) for f in fits])),
        "strays_found": float(np.mean([(o < strays).sum() / strays for o in found]))
        if strays
        else None,
        "wrongly_left_out": float(np.mean([(o >= strays).sum() / case.n for o in found])),
        "calls": float(np.mean([f["calls"] for f in fits])),
        "seconds": float(np.median([f["seconds"] for f in fits])),
    }


def table(records: list[Record]) -> Table:
    """A row for each task, spoiling and method."""
    rows = []
    for name, result in arrange(records).items():
        if "MLE" in result:
            rows.append((f"{name}: MLE", f"{result['MLE']['rmse']:.3g}", "1", *[""] * 5))
        for method in METHODS:
            cell = result[method]
            over = f"{cell['over_mle']:.2f}" if "over_mle" in cell else ""
            strays = "" if cell["strays_found"] is None else f"{cell['strays_found']:.0%}"
            rest = f"{cell['warned']:.0%}", strays, f"{cell['calls']:,.0f}"
            numbers = f"{cell['rmse']:.3g}", over, f"{cell['coverage']:.0%}", *rest
            rows.append((f"{name}: {method}", *numbers, f"{cell['seconds']:.2f}"))
    return Table(
        "The efficient discrepancy beside maximum likelihood",
        ("data", "RMSE", "over MLE", "90% cover", "warned", "strays found", "calls", "CPU s"),
        rows,
        "RMSE in units of the prior's standard deviation, mean over the parameters; the likelihood "
        "sees the rows that are not strays.",
    )


def picture(records: list[Record]) -> Figure:
    """RMSE of both discrepancies over that of the likelihood, or of plain MMD where it is none."""
    results = arrange(records)
    figure = Figure(figsize=(7.2, 0.4 * len(results) + 1.2))
    axes, places = figure.subplots(), np.arange(len(results))
    for shift, method, color in ((-0.18, "plain MMD", "0.6"), (0.18, "efficient", "C0")):
        ratios = [
            cell[method]["rmse"] / cell["MLE" if "MLE" in cell else "plain MMD"]["rmse"]
            for cell in results.values()
        ]
        axes.barh(places + shift, ratios, 0.36, color=color, label=method)
    axes.axvline(1, color="k", linewidth=0.8)
    axes.set_yticks(places, list(results))
    axes.set(xlabel="RMSE over that of maximum likelihood (plain MMD where it is unknown)")
    axes.invert_yaxis()
    axes.legend()
    return figure


EFFICIENCY = Experiment(
    name="efficiency",
    shows="the efficient discrepancy beside maximum likelihood, clean and contaminated",
    takes="40 min",
    repeats=(100, 2),
    steps=lambda plan: len(list_steps(plan)),
    run=run,
    table=table,
    picture=picture,
    arrange=arrange,
    resumable=True,
)
