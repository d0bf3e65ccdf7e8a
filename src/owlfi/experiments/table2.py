"""Table 2: level and power of the composite test, by equal, optimal and tuned weights."""

from collections.abc import Iterator
from itertools import product

import numpy as np
from jaxtyping import Array, Key
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from owlfi.experiments.composite_cases import (
    BANK,
    EQUAL,
    LEVEL,
    MEDIAN,
    SOBOL,
    TUNED,
    Way,
    arrange,
    g_and_k_law,
    run_tests,
)
from owlfi.experiments.experiment import Experiment, Plan, Record, Table
from owlfi.show.plots import draw_null, hide_frame

NULL, ALTERNATIVE = "theta_4 = 0.1 (null)", "theta_4 = 0.5 (alternative)"
LAWS = {NULL: g_and_k_law(0.1), ALTERNATIVE: g_and_k_law(0.5)}
_FRESH = {"designs": BANK}
WAYS = {
    "V, fixed design": Way(EQUAL),
    "V, fresh designs": Way(EQUAL, _FRESH),
    "OW, fixed design": Way(MEDIAN),
    "OW, fresh designs": Way(MEDIAN, _FRESH),
    "tuned, fixed design": Way(TUNED),
    "tuned, fresh designs": Way(TUNED, {"designs": 8}),
    "OW on Sobol points": Way(SOBOL),
    "OW, aggregate": Way(MEDIAN, {"aggregate": True}),
}
PAPER = {  # its designs are fresh
    ("V, fresh designs", NULL): 0.040,
    ("V, fresh designs", ALTERNATIVE): 0.040,
    ("OW, fresh designs", NULL): 0.047,
    ("OW, fresh designs", ALTERNATIVE): 0.413,
}


def run(key: Key[Array, ""], plan: Plan, skip: int = 0) -> Iterator[Record]:
    """Each test, on data that all rules share."""
    steps = list(product(range(plan.repeats), LAWS, WAYS))
    return run_tests(key, LAWS, WAYS, steps[skip:], plan.quick)


def table(records: list[Record]) -> Table:
    """Rejection rates with their intervals, the paper's beside them."""
    found = arrange(records)
    rules = dict.fromkeys(rule for by_rule in found.values() for rule in by_rule)
    rows = [(rule, *(_cell(found[case].get(rule), rule, case) for case in found)) for rule in rules]
    return Table(
        f"Share of composite tests that reject at level {LEVEL} [95% interval]",
        ("rule", *found),
        rows,
        "With a fixed design all fits share it; fresh ones are drawn from a bank for each fit and "
        "each statistic.",
    )


def _cell(result: Record | None, rule: str, case: str) -> str:
    if result is None:
        return ""
    paper = PAPER.get((rule, case))
    beside = "" if paper is None else f"\npaper {paper:.3f}"
    return format_rate(result) + beside


def format_rate(result: Record) -> str:
    """A rate and its interval, in three digits."""
    low, high = result["interval"]
    return f"{result['rate']:.3f} [{low:.3f}, {high:.3f}]"


def picture(records: list[Record]) -> Figure:
    """One test of each case against its null, and all rates with their intervals."""
    figure = Figure(figsize=(8.4, 4.4), layout="constrained")
    places = figure.subplot_mosaic([[NULL, "rates"], [ALTERNATIVE, "rates"]], width_ratios=(1, 1.4))
    for record in records:
        if "null" in record and record["rule"] == "OW, fixed design":
            axes = places[record["case"]]
            draw_null(axes, record["null"], record["statistic"], record["critical_value"])
            axes.set_title(f"OW, {record['case']}", fontsize=8)
    draw_rates(places["rates"], arrange(records))
    return figure


def draw_rates(axes: Axes, found: dict[str, dict[str, Record]]) -> None:
    """A point with its interval for each rule and case."""
    rules = list(dict.fromkeys(rule for by_rule in found.values() for rule in by_rule))
    for number, (case, by_rule) in enumerate(found.items()):
        rates = np.array([by_rule[rule]["rate"] for rule in by_rule])
        ends = np.array([by_rule[rule]["interval"] for rule in by_rule]).T
        place = [rules.index(rule) + 0.15 * number for rule in by_rule]
        reach = np.abs(ends - rates)
        axes.errorbar(rates, place, xerr=reach, fmt="os^Dv"[number % 5], label=case, markersize=4)
    axes.axvline(LEVEL, color="0.5", linestyle=":", label=f"level {LEVEL}")
    axes.set_yticks(range(len(rules)), rules, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("share of tests that reject")
    axes.legend(frameon=False, fontsize=7, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    hide_frame(axes)


TABLE2 = Experiment(
    name="table2",
    shows="level and power of the composite test: equal, optimal and tuned weights",
    takes="70 min",
    repeats=150,
    quick_repeats=1,
    steps=lambda plan: plan.repeats * len(LAWS) * len(WAYS),
    run=run,
    table=table,
    picture=picture,
    arrange=arrange,
    resume=run,
)
