"""Are answers about simulators true that nobody has rewritten? Every step by `from_random`.

Rows at the truth come from a generator of NumPy, as those of nature do, and are not a function of
any u. All methods see the same.
"""

from collections.abc import Iterator
from itertools import product

import jax
import numpy as np
from jaxtyping import Array, Key
from matplotlib.figure import Figure

from owlfi.experiments.experiment import Experiment, Plan, Record, Table, group
from owlfi.experiments.levels import RESAMPLES, summarise_tests
from owlfi.experiments.trust.case import Case
from owlfi.experiments.trust.estimates import (
    FAR,
    Fit,
    draw_coverage,
    fit_minimum,
    fit_rows,
    format_fits,
    split_keys,
    summarise,
)
from owlfi.experiments.trust.methods import fit_by
from owlfi.experiments.trust.written import CASES, POINTS, ROWS, WRITTEN
from owlfi.inference.abc import rejection_abc
from owlfi.inference.posterior_bootstrap import posterior_bootstrap
from owlfi.problem.problem import Problem
from owlfi.results.health import keep_quiet
from owlfi.testing.goodness_of_fit import goodness_of_fit

_THETAS = 500
PLAIN, TEST = "plain ABC", "goodness of fit"
# A test that raises counts as one that rejects.
_RAISED: Record = {"p_value": 0.0, "spread_p_value": 0.0, "warnings": [], "calls": 0}


def _test_fit(key: Key[Array, ""], problem: Problem, case: Case) -> Record:
    test_key, spread_key = jax.random.split(key)
    with keep_quiet():
        found = goodness_of_fit(test_key, problem, case.rule, resamples=RESAMPLES)
    spread = float(jax.random.uniform(spread_key)) / (1 + RESAMPLES)
    return {
        "p_value": found.p_value,
        "spread_p_value": found.p_value - spread,
        "warnings": list(found.warnings),
        "calls": found.calls,
    }


METHODS: dict[str, Fit] = {
    "minimum distance": fit_minimum,
    "bootstrap": fit_by(posterior_bootstrap, draws=200),
    PLAIN: fit_by(rejection_abc, draws=_THETAS),
    "adjusted ABC": fit_by(rejection_abc, draws=_THETAS, adjust=True),
    TEST: _test_fit,
}


def run(key: Key[Array, ""], plan: Plan, skip: int = 0) -> Iterator[Record]:
    """One answer after the other, repeat by repeat through all simulators and methods."""
    for step in list_steps(plan)[skip:]:
        yield answer(key, *step)


def list_steps(plan: Plan) -> list[tuple[int, str, str]]:
    """The repeat, the simulator and the method of each answer."""
    names = plan.choose(tuple(WRITTEN), ("claims",))
    methods = plan.choose(tuple(METHODS), ("minimum distance", "bootstrap"))
    return list(product(range(plan.repeats), names, methods))


def answer(key: Key[Array, ""], repeat: int, name: str, method: str) -> Record:
    """What a method says of rows that all methods of a repeat share."""
    data_key, fit_key = split_keys(key, name, repeat)
    x = WRITTEN[name].observe(int(jax.random.randint(data_key, (), 0, 2**31 - 1)))
    own = jax.random.fold_in(fit_key, list(METHODS).index(method))
    about = {"simulator": name, "method": method, "repeat": repeat}
    return about | fit_rows(own, CASES[name], x, METHODS[method])


def arrange(records: list[Record]) -> Record:
    """By simulator and method: coverage, or how uniform the p-values are."""
    return {
        name: {method: _summarise(name, method, cell) for method, cell in of_name.items()}
        for name, part in group(records, "simulator").items()
        for of_name in [group(part, "method")]
    }


def _summarise(name: str, method: str, cell: list[Record]) -> Record:
    if method != TEST:
        return summarise(CASES[name], cell)
    tests = [_RAISED | record for record in cell]
    errors = sorted({record["error"] for record in cell if "error" in record})
    calls = float(np.median([test["calls"] for test in tests]))
    return summarise_tests(tests) | {"calls": calls, "errors": errors}


def table(records: list[Record]) -> Table:
    """A row for each simulator and method."""
    headings = (
        "simulator, method",
        "RMSE",
        "over MLE",
        "intervals cover [99%], or p-values",
        "far off",
        "warned",
        "calls",
        "seconds",
    )
    return Table(
        "Simulators as they are written",
        headings,
        [
            (f"{name}, {method}", *(_format_tests(c) if method == TEST else format_fits(c)))
            for name, cells in arrange(records).items()
            for method, c in cells.items()
        ],
        f"{ROWS} rows, m = {POINTS}, B = {RESAMPLES}. RMSE in units of the prior's standard "
        f"deviation. Coverage and those more than {FAR:g} standard errors off are of results "
        "without a warning. KS is that of Kolmogorov and Smirnov against the uniform law.",
    )


def _format_tests(cell: Record) -> tuple[str, ...]:
    low, high = cell["interval"]
    told = f"KS {cell['kolmogorov_smirnov']:.2f}; {cell['rate']:.0%} rejected at 0.05"
    told = f"{told} [{low:.0%}, {high:.0%}]"
    return (
        "",
        "",
        told,
        "",
        f"{cell['warned']:.0%}",
        f"{cell['calls']:,.0f}",
        f"{cell['seconds']:.1f}",
    )


def picture(records: list[Record]) -> Figure:
    """How often intervals cover, and the share of p-values up to each level."""
    results = arrange(records)
    cells = {
        f"{name}, {method}": cell
        for name, of_name in results.items()
        for method, cell in of_name.items()
        if method != TEST
    }
    figure = Figure(figsize=(8.4, 0.8 + 0.26 * len(cells)))
    left, right = figure.subplots(1, 2)
    draw_coverage(left, cells)
    for name, of_name in results.items():
        if TEST in of_name:
            p_values = np.sort(of_name[TEST]["p_values"])
            shares = np.arange(1, len(p_values) + 1) / len(p_values)
            right.step(p_values, shares, where="post", label=name, linewidth=1)
    right.plot([0, 1], [0, 1], color="0.5", linestyle=":")
    right.set(xlabel="p", ylabel="share of tests")
    right.legend(fontsize=6)
    return figure


WRITTEN_TRUST = Experiment(
    name="trust-written",
    shows=f"whether answers about {len(WRITTEN)} simulators in plain NumPy can be trusted",
    takes="30 min",
    repeats=(40, 2),
    steps=lambda plan: len(list_steps(plan)),
    run=run,
    table=table,
    picture=picture,
    arrange=arrange,
    resumable=True,
)
