"""One page to send to a colleague: what was asked, the answer, and how far to trust it."""

import platform
import re
from importlib.metadata import version
from pathlib import Path
from types import UnionType
from typing import Any

import numpy as np

from owlfi._tools.checks import as_kind, as_path, plain_number
from owlfi._tools.display import count, round_numbers
from owlfi._tools.files import write_whole
from owlfi.problem.problem import Problem, as_problem
from owlfi.problem.rules import Rule
from owlfi.results.hypothesis_test import HypothesisTest
from owlfi.results.predictive_check import PredictiveCheck
from owlfi.results.result import Result
from owlfi.show import plots
from owlfi.show.axes import grid, hide_frame, new_axes, plain_style
from owlfi.show.bins import choose_bins
from owlfi.show.pages import Picture, Section, Table, render
from owlfi.show.pictures import pictures_of
from owlfi.show.words import as_label
from owlfi.weights.quadrature import Quadrature, as_quadrature

_MOST_COLUMNS = 12  # of data that are listed and drawn
_LIBRARIES = ("owlfi", "jax", "numpy", "scipy")
_EXPECTED: dict[str, tuple[type | UnionType, str]] = {
    "title": (str, "a text"),
    "code": (str, "a text"),
    "rule": (Rule, "a rule such as owlfi.OptimallyWeighted(m=100)"),
    "check": (PredictiveCheck, "what owlfi.check gives"),
    "seed": (int | np.integer, "a whole number"),
}
_LONG = 400  # characters of an entry of `about`


def report(
    result: Any,
    path: Any = "report.html",
    *,
    title: str | None = None,
    problem: Problem | None = None,
    rule: Rule | None = None,
    quadrature: Quadrature | None = None,
    check: PredictiveCheck | None = None,
    seconds: float | None = None,
    seed: int | None = None,
    code: str | None = None,
) -> Path:
    """Write a page on any result: one HTML file that needs no network and no other file.

    path: where; its folder must be there.
    problem: what was asked, and the data.
    rule, quadrature: how simulations were placed and weighted, with the certificate.
    check: what `owlfi.check` gave for the result.
    seconds, seed, code: what it took, and how to get it again.

    Returns the path. Raises ValueError for anything but a result, OSError where it cannot be
    written.

    >>> import jax.numpy as jnp, owlfi, tempfile
    >>> estimate = owlfi.Estimate(("a",), jnp.array([2.0]), jnp.array([[0.01]]), jnp.array(0.001))
    >>> path = owlfi.report(estimate, Path(tempfile.mkdtemp()) / "report.html")
    >>> "<h1>" in path.read_text(encoding="utf-8")
    True
    """
    as_kind("result", result, Result, "a result of owlfi, such as an Estimate or a Posterior")
    target = as_path("path", path)
    _check_given(title=title, code=code, rule=rule, check=check, seed=seed)
    taken = None if seconds is None else plain_number("seconds", seconds)
    name = title or _name(result)
    with plain_style():
        found = [
            *([] if problem is None else _describe_problem(as_problem(problem), rule)),
            _describe_answer(result),
            _describe_health(result),
            *([] if check is None else [_describe_check(check)]),
            *([] if quadrature is None else [_describe_weights(as_quadrature(quadrature))]),
            _describe_cost(result, taken),
            _describe_origin(result, seed, code),
        ]
        text = render(name[:1].upper() + name[1:], "; ".join(result._headlines()), found)
    with write_whole(target) as file:
        file.write(text.encode())
    return target


def _check_given(**given: Any) -> None:
    """ValueError for what is neither left out nor what it should be."""
    for name, value in given.items():
        if value is not None:
            kind, expected = _EXPECTED[name]
            as_kind(name, value, kind, expected)


def report_runs(
    path: Any,
    title: str,
    lines: tuple[str, ...],
    *,
    problem: Problem,
    rule: Rule,
    quadrature: Quadrature | None = None,
    code: str = "",
) -> Path:
    """The same on runs that no method was asked to use, with some lines on them."""
    target = as_path("path", path)
    with plain_style():
        found = [
            *_describe_problem(problem, rule),
            Section("runs", "The runs", lines),
            *([_describe_weights(quadrature)] if quadrature else []),
            Section("again", "To get it again", tables=(_list_versions(None),), code=code),
        ]
        text = render(title, "Simulations, without inference", found)
    with write_whole(target) as file:
        file.write(text.encode())
    return target


def _describe_problem(problem: Problem, rule: Rule | None) -> list[Section]:
    return [_describe_question(problem, rule), _describe_data(problem)]


def _describe_question(problem: Problem, rule: Rule | None) -> Section:
    n, d = problem.observed.shape
    facts = [f"{count(n, 'row')} of {count(d, 'column')} were observed."]
    kernel = round_numbers(repr(problem.data_kernel))
    facts += [f"Simulator: {problem.simulator!r}.", f"Data kernel: {kernel}."]
    facts += [] if rule is None else [f"Points and weights: {rule!r}."]
    rows = [list(row) for row in problem.prior.table()]
    table = Table("Parameters and what was believed of them", ["parameter", "prior"], rows, True)
    return Section("question", "What was asked", tuple(facts), (table,))


def _describe_data(problem: Problem) -> Section:
    x, names = np.asarray(problem.observed), problem.columns[:_MOST_COLUMNS]
    rows = [
        [name, *(f"{f(x[:, j]):.4g}" for f in (np.mean, np.std, np.min, np.median, np.max))]
        for j, name in enumerate(names)
    ]
    left = x.shape[1] - len(names)
    lines = (f"The first {len(names)} of {x.shape[1]} columns.",) if left else ()
    headings = ["column", "mean", "sd", "smallest", "median", "largest"]
    axes = grid(len(names))
    for j, (ax, name) in enumerate(zip(axes, names, strict=True)):
        ax.hist(x[:, j], choose_bins(x[:, j]), color="0.6")
        ax.set(xlabel=as_label(name), yticks=[])
        hide_frame(ax)
    words = f"Histograms of {', '.join(names)}; the table beside has their numbers."
    drawn = Picture(axes[0].figure, "Columns of the data", words)
    table = Table("Columns of the data", headings, rows)
    return Section("data", "The data", lines, (table,), (drawn,))


def _describe_answer(result: Result) -> Section:
    headings, *rows = result._table()
    words = tuple(line for line in result._lines() if "\n" not in line)
    table = Table(_name_kind(result), headings, rows)
    return Section("answer", "The answer", words, (table,), _picture(result))


def _describe_health(result: Result) -> Section:
    if result.warnings:
        doubts = tuple(f"{sentence.rstrip('.')}." for sentence in result.warnings)
        return Section("health", "What to doubt", doubts=doubts)
    return Section("health", "What to doubt", fine="Nothing was found that makes it doubtful.")


def _describe_check(check: PredictiveCheck) -> Section:
    headings, *rows = check._table()
    words = tuple(line for line in check._lines() if "\n" not in line)
    table = Table("Observed statistics among replicated ones", headings, rows)
    doubts = tuple(f"{sentence.rstrip('.')}." for sentence in check.warnings)
    title = "Does the fitted model give such data?"
    return Section("check", title, words, (table,), _picture(check), doubts)


def _picture(result: Result) -> tuple[Picture, ...]:
    """None where numbers are beyond drawing, NaN or near the largest double: the table has them."""
    try:
        return pictures_of(result)
    except (ValueError, OverflowError):
        return ()


def _describe_weights(quadrature: Quadrature) -> Section:
    lines, pictures = (quadrature.explain(),), list[Picture]()
    if quadrature.points.ndim == 2:
        axes = plots.weights(quadrature, new_axes(size=3.2).flat[0])
        words = f"The weights of {quadrature.m} points, against the first coordinate of u."
        pictures.append(Picture(axes.figure, "Weights of the points", words))
    return Section("weights", "Weights and certificate", lines, pictures=tuple(pictures))


def _describe_cost(result: Result, seconds: float | None) -> Section:
    lines = [f"{count(result.calls, 'simulator call')}."]
    beside = getattr(result, "gradient_calls", 0)
    lines += [f"{count(beside, 'derivative')} of a row by a parameter."] if beside else []
    lines += [] if seconds is None else [f"{seconds:,.3g} seconds."]
    return Section("cost", "What it cost", tuple(lines))


def _describe_origin(result: Result, seed: int | None, code: str | None) -> Section:
    about = [[name.replace("_", " "), _shorten(value)] for name, value in result.about.items()]
    tables = [_list_versions(seed)]
    tables += [Table("Settings and diagnostics", ["what", "value"], about, True)] if about else []
    return Section("again", "To get it again", tables=tuple(tables), code=code or "")


def _list_versions(seed: int | None) -> Table:
    rows = [[name, version(name)] for name in _LIBRARIES]
    rows += [["Python", platform.python_version()]]
    rows += [] if seed is None else [["seed", str(seed)]]
    return Table("Versions", ["what", "version"], rows, True)


def _name(result: Result) -> str:
    """What was done; of tests, which kind."""
    method, kind = result.about.get("method"), _name_kind(result)
    if isinstance(result, HypothesisTest) and method:
        return f"{kind}: {method}"
    return str(method or kind)


def _name_kind(result: Result) -> str:
    """In words, as "Predictive check"."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", type(result).__name__).capitalize()


def _shorten(value: Any) -> str:
    text = _write(value)
    return text if len(text) <= _LONG else f"{text[:_LONG]} …"


def _write(value: Any) -> str:
    """As a reader would, not as Python does."""
    if isinstance(value, dict):
        return "; ".join(f"{name}: {_write_named(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_write, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _write_named(value: Any) -> str:
    """The same of what stands below a name."""
    if not isinstance(value, dict):
        return _write(value)
    return ", ".join(f"{name} = {_write(each)}" for name, each in value.items())
