"""Table 2, level and power of the composite test by several rules; and its power as tails grow."""

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
    Ways,
    arrange,
    contaminated_law,
    equicorrelated_law,
    g_and_k_law,
    run_tests,
)
from owlfi.experiments.experiment import Experiment, Plan, Record, Table
from owlfi.show.plots import draw_null

TITLE = f"Share of composite tests that reject at level {LEVEL} [95% interval]"
NULL, ALTERNATIVE = "theta_4 = 0.1 (null)", "theta_4 = 0.5 (alternative)"
LAWS = {NULL: g_and_k_law(0.1), ALTERNATIVE: g_and_k_law(0.5)}
WAYS: Ways = {
    "V, fixed design": {"rule": EQUAL},
    "V, fresh designs": {"rule": EQUAL, "designs": BANK},
    "OW, fixed design": {"rule": MEDIAN},
    "OW, fresh designs": {"rule": MEDIAN, "designs": BANK},
    "tuned, fixed design": {"rule": TUNED},
    "tuned, fresh designs": {"rule": TUNED, "designs": 8},
    "OW on Sobol points": {"rule": SOBOL},
    "OW, aggregate": {"rule": MEDIAN, "aggregate": True},
}
PAPER = {  # its designs are fresh
    ("V, fresh designs", NULL): 0.040,
    ("V, fresh designs", ALTERNATIVE): 0.040,
    ("OW, fresh designs", NULL): 0.047,
    ("OW, fresh designs", ALTERNATIVE): 0.413,
}
TAILS = {f"theta_4 = {value:g}": value for value in (0.1, 0.2, 0.3, 0.5)}
POWER_LAWS = {name: g_and_k_law(value) for name, value in TAILS.items()} | {
    "equal correlations": equicorrelated_law(0.3),
    "5% in a cluster": contaminated_law(0.05),
}
AGGREGATE = "OW, aggregate"
POWER_WAYS: Ways = {"V": {"rule": EQUAL}, "OW": {"rule": MEDIAN}, AGGREGATE: WAYS[AGGREGATE]}
_NULLS = 6  # a level needs more tests than a power; the other rules have theirs in Table 2


def run_table2(key: Key[Array, ""], plan: Plan, skip: int = 0) -> Iterator[Record]:
    """Each test, on data that all rules share."""
    steps = list(product(range(plan.repeats), LAWS, WAYS))
    return run_tests(key, LAWS, WAYS, steps[skip:], plan.quick)


def _power_steps(plan: Plan) -> list[tuple[int, str, str]]:
    """Repeat by repeat, so that more of them go on where fewer ended."""
    steps = []
    for first in range(0, _NULLS * plan.repeats, _NULLS):
        nulls = range(first + 1, first + (1 if plan.quick else _NULLS))
        steps += [(first, law, way) for law, way in product(POWER_LAWS, POWER_WAYS)]
        steps += [(repeat, "theta_4 = 0.1", AGGREGATE) for repeat in nulls]
    return steps


def run_power(key: Key[Array, ""], plan: Plan, skip: int = 0) -> Iterator[Record]:
    """Each test, on data that all rules share."""
    return run_tests(key, POWER_LAWS, POWER_WAYS, _power_steps(plan)[skip:], plan.quick)


def table2(records: list[Record]) -> Table:
    """Rejection rates with their intervals, the paper's beside them."""
    found = arrange(records)
    rules = dict.fromkeys(record["rule"] for record in records)
    rows = [(rule, *(_format_rate(found, case, rule) for case in found)) for rule in rules]
    return Table(
        TITLE,
        ("rule", *found),
        rows,
        "With a fixed design all fits share it; fresh ones are drawn from a bank for each fit and "
        "each statistic.",
    )


def power_table(records: list[Record]) -> Table:
    """Rejection rates by law and rule."""
    found = arrange(records)
    rows = [(case, *(_format_rate(found, case, way) for way in POWER_WAYS)) for case in found]
    return Table(f"{TITLE}; theta_4 = 0.1 is the null", ("data", *POWER_WAYS), rows)


def _format_rate(found: dict[str, dict[str, Record]], case: str, rule: str) -> str:
    if rule not in found[case]:
        return ""
    low, high = found[case][rule]["interval"]
    beside = f"\npaper {PAPER[rule, case]:.3f}" if (rule, case) in PAPER else ""
    return f"{found[case][rule]['rate']:.3f} [{low:.3f}, {high:.3f}]{beside}"


def table2_picture(records: list[Record]) -> Figure:
    """One test of each case against its null, and all rates with their intervals."""
    figure = Figure(figsize=(8.4, 4.4))
    places = figure.subplot_mosaic([[NULL, "rates"], [ALTERNATIVE, "rates"]], width_ratios=(1, 1.4))
    for record in records:
        if "null" in record and record["rule"] == "OW, fixed design":
            axes = places[record["case"]]
            draw_null(axes, record["null"], record["statistic"], record["critical_value"])
            axes.set_title(f"OW, {record['case']}", fontsize=8)
    _draw_rates(places["rates"], arrange(records))
    return figure


def power_picture(records: list[Record]) -> Figure:
    """Rates against theta_4, and those of the other alternatives."""
    found = arrange(records)
    figure = Figure(figsize=(8.4, 3.6))
    axes, right = figure.subplots(1, 2)
    for way, style in zip(POWER_WAYS, ("o--", "s-", "^-."), strict=True):
        cells = {TAILS[c]: found[c][way] for c in TAILS if way in found.get(c, {})}
        rates, reach = _error_bars(list(cells.values()))
        axes.errorbar(list(cells), rates, yerr=reach, fmt=style, label=way, markersize=4)
    axes.axhline(LEVEL, color="0.5", linestyle=":")
    axes.set(xlabel="theta_4 of the data", ylabel="share of tests that reject")
    axes.legend(fontsize=8)
    _draw_rates(right, {case: rates for case, rates in found.items() if case not in TAILS})
    return figure


def _draw_rates(axes: Axes, found: dict[str, dict[str, Record]]) -> None:
    """A point with its interval for each rule and case."""
    rules = list(dict.fromkeys(rule for by_rule in found.values() for rule in by_rule))
    for number, (case, by_rule) in enumerate(found.items()):
        rates, reach = _error_bars(list(by_rule.values()))
        place = [rules.index(rule) + 0.15 * number for rule in by_rule]
        axes.errorbar(rates, place, xerr=reach, fmt="os^Dv"[number % 5], label=case, markersize=4)
    axes.axvline(LEVEL, color="0.5", linestyle=":", label=f"level {LEVEL}")
    axes.set_yticks(range(len(rules)), rules, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("share of tests that reject")
    axes.legend(fontsize=7, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)


def _error_bars(cells: list[Record]) -> tuple[np.ndarray, np.ndarray]:
    """The rates, and how far their intervals reach to both sides."""
    rates = np.array([cell["rate"] for cell in cells])
    return rates, np.abs(np.array([cell["interval"] for cell in cells]).T - rates)


TABLE2 = Experiment(
    name="table2",
    shows="level and power of the composite test: equal, optimal and tuned weights",
    takes="70 min",
    repeats=(150, 1),
    steps=lambda plan: plan.repeats * len(LAWS) * len(WAYS),
    run=run_table2,
    table=table2,
    picture=table2_picture,
    arrange=arrange,
    resumable=True,
)
POWER = Experiment(
    name="power",
    shows="power of the composite test against theta_4 and two other misfits",
    takes="35 min",
    repeats=(50, 1),
    steps=lambda plan: len(_power_steps(plan)),
    run=run_power,
    table=power_table,
    picture=power_picture,
    arrange=arrange,
    resumable=True,
)
