"""Power of the composite test against the tails of the data, and other ways to be wrong."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Array, Key
from matplotlib.figure import Figure

from owlfi.experiments.composite_cases import (
    EQUAL,
    LEVEL,
    MEDIAN,
    Way,
    arrange,
    contaminated_law,
    equicorrelated_law,
    g_and_k_law,
    run_tests,
)
from owlfi.experiments.experiment import Experiment, Plan, Record, Table
from owlfi.experiments.table2 import draw_rates, format_rate
from owlfi.show.plots import hide_frame

TAILS = {f"theta_4 = {value:g}": value for value in (0.1, 0.2, 0.3, 0.5)}
NULL = "theta_4 = 0.1"
LAWS = {
    **{name: g_and_k_law(value) for name, value in TAILS.items()},
    "equal correlations": equicorrelated_law(0.3),
    "5% in a cluster": contaminated_law(0.05),
}
AGGREGATE = "OW, aggregate"
WAYS = {"V": Way(EQUAL), "OW": Way(MEDIAN), AGGREGATE: Way(MEDIAN, {"aggregate": True})}
_NULLS = 6  # a level needs more tests than a power; the other rules have theirs in Table 2


def _steps(plan: Plan) -> list[tuple[int, str, str]]:
    """Repeat by repeat, so that more of them go on where fewer ended."""
    steps = []
    for first in range(0, _NULLS * plan.repeats, _NULLS):
        nulls = range(first + 1, first + (1 if plan.quick else _NULLS))
        steps += [(first, law, way) for law in LAWS for way in WAYS]
        steps += [(repeat, NULL, AGGREGATE) for repeat in nulls]
    return steps


def run(key: Key[Array, ""], plan: Plan, skip: int = 0) -> Iterator[Record]:
    """Each test, on data that all rules share."""
    return run_tests(key, LAWS, WAYS, _steps(plan)[skip:], plan.quick)


def table(records: list[Record]) -> Table:
    """Rejection rates by law and rule."""
    rows = [
        (case, *(format_rate(by_rule[way]) if way in by_rule else "" for way in WAYS))
        for case, by_rule in arrange(records).items()
    ]
    title = (
        f"Share of composite tests that reject at level {LEVEL} [95% interval]; {NULL} is the null"
    )
    return Table(title, ("data", *WAYS), rows)


def picture(records: list[Record]) -> Figure:
    """Rates against theta_4, and those of the other alternatives."""
    found = arrange(records)
    figure = Figure(figsize=(8.4, 3.6), layout="constrained")
    axes, right = figure.subplots(1, 2)
    for way, style in zip(WAYS, ("o--", "s-", "^-."), strict=True):
        cells = {TAILS[c]: found[c][way] for c in TAILS if way in found.get(c, {})}
        rates = np.array([cell["rate"] for cell in cells.values()])
        reach = np.abs(np.array([cell["interval"] for cell in cells.values()]).T - rates)
        axes.errorbar(list(cells), rates, yerr=reach, fmt=style, label=way, markersize=4)
    axes.axhline(LEVEL, color="0.5", linestyle=":")
    axes.set(xlabel="theta_4 of the data", ylabel="share of tests that reject")
    axes.legend(frameon=False, fontsize=8)
    hide_frame(axes)
    draw_rates(right, {case: rates for case, rates in found.items() if case not in TAILS})
    return figure


POWER = Experiment(
    name="power",
    shows="power of the composite test against theta_4 and two other misfits",
    takes="35 min",
    repeats=50,
    quick_repeats=1,
    steps=lambda plan: len(_steps(plan)),
    run=run,
    table=table,
    picture=picture,
    arrange=arrange,
    resume=run,
)
