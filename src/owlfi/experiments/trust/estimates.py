"""Is what `minimum_distance` prints true? Its intervals and warnings on problems nobody chose.

An interval that misses is no fault in one case of ten, and an estimate far off is none where a
warning stands beside it. So results without a warning are asked how often their 90% intervals
cover the truth, and how many of them are more than five standard errors off.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from zlib import crc32

import jax
import numpy as np
from jaxtyping import Array, Key
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import norm

from owlfi.experiments.experiment import Experiment, Plan, Record, Table, group
from owlfi.experiments.trust.case import Case
from owlfi.experiments.trust.problems import PROBLEMS
from owlfi.inference.minimum_distance import minimum_distance
from owlfi.problem.problem import Problem
from owlfi.results.distribution import Distribution
from owlfi.results.health import keep_quiet
from owlfi.results.uniformity import binomial_band

LEVEL, CONFIDENCE = 0.9, 0.99
BAND = 0.85, 0.95  # of coverages that are as good as 0.9
FAR = 5.0
_CHEAPEST = ("exponential, 1e-6", "mean at a bound", "negative binomial", "zero-inflated Poisson")
_REACH = float(norm.ppf(0.5 + LEVEL / 2))  # of an interval, in standard errors

Fit = Callable[[Key[Array, ""], Problem, Case], Record]
"""A method on one problem: estimate, interval, warnings and calls."""


def run(key: Key[Array, ""], plan: Plan, skip: int = 0) -> Iterator[Record]:
    """One data set after the other, repeat by repeat through all problems, or the cheapest."""
    for name, number in list_steps(plan)[skip:]:
        yield fit_one(key, name, number)


def list_steps(plan: Plan, names: Iterable[str] | None = None) -> list[tuple[str, int]]:
    """The problem and the number of each data set, of all problems where none are named."""
    chosen = list(plan.choose(tuple(PROBLEMS), _CHEAPEST) if names is None else names)
    repeats = range(plan.repeats)
    return [(name, i) for r in repeats for name in chosen for i in PROBLEMS[name].numbers(r)]


def fit_one(key: Key[Array, ""], name: str, number: int, fit: Fit | None = None) -> Record:
    """The record of one data set, which depends on nothing but the key, the name and its number.

    fit: the method, `minimum_distance` where left out.
    """
    data_key, fit_key = split_keys(key, name, number)
    case = PROBLEMS[name]
    about = {"problem": name, "number": number}
    return about | fit_rows(fit_key, case, case.observe(data_key), fit or fit_minimum)


def split_keys(key: Key[Array, ""], name: str, number: int) -> Key[Array, " 2"]:
    """Of the data and of the fit, whatever other problems there are."""
    place = crc32(name.encode())
    return jax.random.split(jax.random.fold_in(jax.random.fold_in(key, place), number))


def fit_rows(key: Key[Array, ""], case: Case, x: Array | np.ndarray, fit: Fit) -> Record:
    """What a method finds in the rows x, or the error that it raises."""
    begin = time.perf_counter()
    try:
        found = fit(key, case.pose(x), case)
    except Exception as error:  # whatever it is, a user would have seen it
        found = {"error": f"{type(error).__name__}: {error}"}
    seconds = time.perf_counter() - begin
    return {"reference": case.refer(x), "seconds": seconds} | found


def fit_minimum(key: Key[Array, ""], problem: Problem, case: Case) -> Record:
    """By `minimum_distance`."""
    with keep_quiet():
        return read_result(minimum_distance(key, problem, case.rule, whiten=case.whiten))


def read_result(result: Distribution) -> Record:
    """Where it is and how wide, its interval, and what it says of itself."""
    low, high = result.interval(LEVEL)
    arrays = {"theta": result.center, "standard_errors": result.spread, "low": low, "high": high}
    return {name: np.asarray(array).tolist() for name, array in arrays.items()} | {
        "warnings": list(result.warnings),
        "calls": result.calls,
    }


def arrange(records: list[Record]) -> dict[str, Record]:
    """By problem: errors, what the reference's are, coverage, and how many are off or warned."""
    return {
        name: summarise(PROBLEMS[name], part) for name, part in group(records, "problem").items()
    }


def summarise(case: Case, records: list[Record]) -> Record:
    """Of the fits of one problem."""
    fitted = [r for r in records if "error" not in r]
    silent = [r for r in fitted if not r["warnings"]]
    truth = np.array(case.theta)
    return {
        "data_sets": len(records),
        "rmse": case.rmse([r["theta"] for r in fitted]),
        **_compare(case, fitted),
        **measure_coverage(truth, silent),
        "far": sum(distance_in_errors(truth, r) > FAR for r in silent),
        "warned": 1 - len(silent) / len(records),
        "warnings": sorted({text for r in fitted for text in r["warnings"]}),
        "errors": sorted({r["error"] for r in records if "error" in r}),
        "calls": _median([r["calls"] for r in fitted]),
        "seconds": _median([r["seconds"] for r in records]),
    }


def _compare(case: Case, fitted: list[Record]) -> Record:
    """RMSE of the reference on the same data sets, and the ratio to it."""
    if case.reference is None or not fitted:
        return {}
    reference = case.rmse([r["reference"] for r in fitted])
    ratio = case.rmse([r["theta"] for r in fitted]) / reference
    return {"reference_rmse": reference, "over_reference": ratio}


def measure_coverage(truth: np.ndarray, silent: list[Record]) -> Record:
    """The share of intervals that cover, all parameters together, and an interval for it.

    Parameters of one data set are missed together. Clopper and Pearson's interval is taken with the
    number of independent intervals that would scatter as the means of the data sets do: at least
    one a data set, at most one a parameter.
    """
    if not silent:
        return {"coverage": None, "coverage_interval": [0.0, 1.0], "least_coverage": None}
    low, high = (np.array([r[end] for r in silent]) for end in ("low", "high"))
    inside = (low <= truth) & (truth <= high)  # not where they are NaN
    mean, (sets, parameters) = inside.mean(), inside.shape
    scatter = inside.mean(1).var(ddof=1) / sets if sets > 1 else 0.0
    number = mean * (1 - mean) / scatter if scatter > 0 else sets
    number = float(np.clip(number, sets, sets * parameters))
    interval = binomial_band(mean * number, number, CONFIDENCE)
    return {
        "coverage": float(mean),
        "coverage_interval": list(interval),
        "least_coverage": float(inside.mean(0).min()),
    }


def distance_in_errors(truth: np.ndarray, record: Record) -> float:
    """The farthest parameter from the truth, in standard errors of that side's half interval."""
    theta, low, high = (np.array(record[name]) for name in ("theta", "low", "high"))
    error = np.where(truth > theta, high - theta, theta - low) / _REACH
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = np.abs(truth - theta) / error
    return float(np.nan_to_num(distance, nan=np.inf).max())  # without an error, nothing is known


def _median(values: list[float]) -> float:
    return float(np.median(values)) if values else float("nan")


def table(records: list[Record]) -> Table:
    """A row for each problem."""
    return Table(
        "Minimum-distance estimates and their 90% intervals",
        (
            "problem",
            "RMSE",
            "over MLE",
            "intervals cover [99%]",
            "far off",
            "warned",
            "calls",
            "seconds",
        ),
        [(name, *format_fits(result)) for name, result in arrange(records).items()],
        "RMSE of all fits in units of the prior's standard deviation, mean over the parameters. "
        f"Coverage and those more than {FAR:g} standard errors off are of results without a "
        f"warning. Calls and seconds are medians. {_pool(records)}",
    )


def share_warned(records: list[Record]) -> float:
    """Of the data sets of problems that can be solved."""
    solvable = [r for r in records if not PROBLEMS[r["problem"]].doubt]
    return float(np.mean([bool(r.get("warnings", True)) for r in solvable])) if solvable else 0.0


def _pool(records: list[Record]) -> str:
    doubts = [f"{name} ({case.doubt})" for name, case in PROBLEMS.items() if case.doubt]
    return f"Warned in all: {share_warned(records):.1%}, not counting {', '.join(doubts)}."


def format_fits(result: Record) -> tuple[str, ...]:
    """What a table says of the fits of one problem."""
    low, high = result["coverage_interval"]
    covered = "" if result["coverage"] is None else f"{result['coverage']:.0%}"
    return (
        f"{result['rmse']:.3g}",
        f"{result['over_reference']:.2f}" if "over_reference" in result else "",
        f"{covered} [{low:.0%}, {high:.0%}]" if covered else "",
        f"{result['far']} of {result['data_sets']}",
        f"{result['warned']:.0%}",
        f"{result['calls']:,.0f}",
        f"{result['seconds']:.1f}",
    )


def picture(records: list[Record]) -> Figure:
    """Coverage of each problem, and its RMSE over that of the maximum likelihood."""
    results = arrange(records)
    figure = Figure(figsize=(8.4, 0.8 + 0.26 * len(results)))
    left, right = figure.subplots(1, 2, sharey=True)
    draw_coverage(left, results)
    ratios = [result.get("over_reference", np.nan) for result in results.values()]
    right.plot(ratios, range(len(ratios)), "o", markersize=4)
    right.axvline(1, color="0.5", linestyle=":")
    right.set(xlabel="RMSE / RMSE of maximum likelihood", xscale="log")
    return figure


def draw_coverage(axes: Axes, results: dict[str, Record]) -> None:
    """A line for each problem, from the top."""
    axes.axvspan(*BAND, color="0.9")
    axes.axvline(LEVEL, color="0.5", linestyle=":")
    for place, result in enumerate(results.values()):
        if result["coverage"] is not None:
            axes.plot(result["coverage_interval"], [place, place], color="C0")
            axes.plot(result["coverage"], place, "o", color="C0", markersize=4)
    axes.set(xlabel=f"share of {LEVEL:.0%} intervals that cover", xlim=(-0.02, 1.02))
    axes.set_yticks(range(len(results)), list(results), fontsize=8)
    axes.invert_yaxis()


TRUST = Experiment(
    name="trust",
    shows=f"whether intervals and warnings can be trusted, on {len(PROBLEMS)} problems",
    takes="40 min",
    repeats=(60, 2),
    steps=lambda plan: len(list_steps(plan)),
    run=run,
    table=table,
    picture=picture,
    arrange=arrange,
    resumable=True,
)
