"""Are p-values of true models uniform? Composite tests of three models, on few points and more.

A p-value (1 + k) / (1 + B) has B + 1 values. A uniform number of its own spreads each over the step
below it, which makes it uniform on (0, 1) for a true model, as Kolmogorov and Smirnov ask.
"""

import time
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any
from zlib import crc32

import jax
import numpy as np
from jaxtyping import Array, Key
from matplotlib.figure import Figure
from scipy.stats import binomtest, kstest

from owlfi.experiments.experiment import Experiment, Plan, Record, Table, group
from owlfi.experiments.trust.problems import PROBLEMS
from owlfi.problem.rules import OptimallyWeighted
from owlfi.results import HypothesisTest
from owlfi.results.health import keep_quiet
from owlfi.testing.goodness_of_fit import goodness_of_fit
from owlfi.testing.wild import wild_goodness_of_fit

MODELS = ("log-normal copula", "Ornstein-Uhlenbeck, stationary", "zero-inflated Poisson")
"""Three columns; a path of 25; and counts, which jump as theta changes."""
POINTS = (64, 256)
LEVEL, RESAMPLES = 0.05, 99
SLOWEST = "aggregate"  # on many points it takes as long as all others together

Way = Callable[..., HypothesisTest]
WAYS: dict[str, tuple[Way, dict[str, Any]]] = {
    "parametric": (goodness_of_fit, {}),
    SLOWEST: (goodness_of_fit, {"aggregate": True}),
    "wild": (wild_goodness_of_fit, {}),
}


def run(key: Key[Array, ""], plan: Plan, skip: int = 0) -> Iterator[Record]:
    """One test after the other, repeat by repeat through all cells."""
    for step in list_steps(plan)[skip:]:
        yield run_test(key, *step)


def list_steps(plan: Plan) -> list[tuple[int, str, int, str]]:
    """The repeat, the model, m and the way of each test."""
    cells = product(range(plan.repeats), MODELS, plan.choose(POINTS, POINTS[:1]), WAYS)
    return [cell for cell in cells if cell[2] == min(POINTS) or cell[3] != SLOWEST]


def run_test(key: Key[Array, ""], repeat: int, model: str, m: int, way: str) -> Record:
    """A test of rows drawn at the truth, which all ways and all m of a repeat share."""
    case, (test, options) = PROBLEMS[model], WAYS[way]
    own = jax.random.fold_in(jax.random.fold_in(key, crc32(model.encode())), repeat)
    data_key, test_key, spread_key = jax.random.split(own, 3)
    problem, begin = case.pose(case.observe(data_key)), time.perf_counter()
    with keep_quiet():
        found = test(test_key, problem, OptimallyWeighted(m=m), resamples=RESAMPLES, **options)
    spread = float(jax.random.uniform(spread_key)) / (1 + RESAMPLES)
    return {
        "model": model,
        "m": m,
        "way": way,
        "repeat": repeat,
        "p_value": found.p_value,
        "spread_p_value": found.p_value - spread,
        "warnings": list(found.warnings),
        "calls": found.calls,
        "seconds": time.perf_counter() - begin,
    }


def arrange(records: list[Record]) -> list[Record]:
    """By model, m and way: how uniform the p-values are, and how many reject."""
    return [
        {"model": model, "m": m, "way": way, **summarise_tests(tests)}
        for model, of_model in group(records, "model").items()
        for m, of_points in group(of_model, "m").items()
        for way, tests in group(of_points, "way").items()
    ]


def summarise_tests(tests: list[Record]) -> Record:
    """How uniform the p-values of a cell are, and how many reject."""
    p_values = np.array([test["p_value"] for test in tests])
    spread = np.array([test["spread_p_value"] for test in tests])
    rejections = int((p_values <= LEVEL).sum())
    interval = binomtest(rejections, len(tests)).proportion_ci(0.95, method="wilson")
    return {
        "tests": len(tests),
        "kolmogorov_smirnov": float(kstest(spread, "uniform").pvalue),
        "mean": float(spread.mean()),
        "rate": rejections / len(tests),
        "interval": [interval.low, interval.high],
        "warned": float(np.mean([bool(test["warnings"]) for test in tests])),
        "seconds": float(np.median([test["seconds"] for test in tests])),
        "p_values": p_values.tolist(),
    }


def table(records: list[Record]) -> Table:
    """A row for each model, m and way."""
    headings = ("model", "m", "test", "KS p", "mean p", f"rejected at {LEVEL} [95%]", "warned")
    return Table(
        "p-values of true models",
        headings,
        [(cell["model"], str(cell["m"]), cell["way"], *_format(cell)) for cell in arrange(records)],
        f"B = {RESAMPLES}. KS p is that of Kolmogorov and Smirnov against the uniform law, "
        f"whose mean is 0.5 +- {1 / np.sqrt(12 * _tests_per_cell(records)):.3f}.",
    )


def _tests_per_cell(records: list[Record]) -> int:
    return max((cell["tests"] for cell in arrange(records)), default=1)


def _format(cell: Record) -> tuple[str, ...]:
    low, high = cell["interval"]
    return (
        f"{cell['kolmogorov_smirnov']:.2f}",
        f"{cell['mean']:.3f}",
        f"{cell['rate']:.3f} [{low:.3f}, {high:.3f}]",
        f"{cell['warned']:.0%}",
    )


def picture(records: list[Record]) -> Figure:
    """The share of p-values up to each level, a panel for each model."""
    models = group(arrange(records), "model")
    figure = Figure(figsize=(8.4, 3.2))
    panels = figure.subplots(1, len(models), sharex=True, sharey=True, squeeze=False)[0]
    for axes, (model, cells) in zip(panels, models.items(), strict=True):
        for cell in cells:
            ordered = np.sort(cell["p_values"])
            shares = np.arange(1, len(ordered) + 1) / len(ordered)
            style = "--" if cell["m"] == min(POINTS) else "-"
            color = f"C{list(WAYS).index(cell['way'])}"
            name = f"{cell['way']}, m = {cell['m']}"
            axes.step(ordered, shares, style, where="post", color=color, label=name, linewidth=1)
        axes.plot([0, 1], [0, 1], color="0.5", linestyle=":")
        axes.set_title(model, fontsize=8)
        axes.set_xlabel("p")
    panels[0].set_ylabel("share of tests")
    panels[0].legend(fontsize=6)
    return figure


LEVELS = Experiment(
    name="levels",
    shows="whether p-values of composite tests of true models are uniform, on three models",
    takes="2 h",
    repeats=(150, 1),
    steps=lambda plan: len(list_steps(plan)),
    run=run,
    table=table,
    picture=picture,
    arrange=arrange,
    resumable=True,
)
