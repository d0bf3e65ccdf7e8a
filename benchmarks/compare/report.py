"""The page, the picture and the file of numbers."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.compare.cells import Cell
from benchmarks.compare.peer import FEWEST_SETS, Peer
from benchmarks.report import machine

OURS = "owlfi efficient"
CLOSED = f"{OURS}, black box"
_NEAR = {1_000: 1.0, 10_000: 1.0, 100_000: 1.1}  # times the best peer, at most
_LIBRARIES = ("sbi", "pyabc", "elfi")


def write_results(
    folder: Path, cells: Sequence[Cell], peers: Sequence[Peer], faults: Mapping[str, str]
) -> list[Path]:
    """Write COMPARE.md, compare.json and compare.png."""
    folder.mkdir(parents=True, exist_ok=True)
    page, numbers, drawing = (folder / f for f in ("COMPARE.md", "compare.json", "compare.png"))
    described = machine(_LIBRARIES)
    page.write_text(write_page(cells, peers, faults, described), encoding="utf-8")
    content = {"machine": described, "faults": dict(faults), "cells": [c._asdict() for c in cells]}
    numbers.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    with mpl.rc_context({"axes.spines.right": False, "axes.spines.top": False}):
        draw(cells).savefig(drawing, dpi=150)
    return [page, numbers, drawing]


def write_page(
    cells: Sequence[Cell],
    peers: Sequence[Peer],
    faults: Mapping[str, str],
    described: Mapping[str, str],
) -> str:
    """The whole of COMPARE.md."""
    facts = "\n".join(f"- {name}: {value}" for name, value in described.items())
    missing = "".join(f"- **{name} did not install**: {why}\n" for name, why in faults.items())
    settings = "\n".join(f"- **{peer.name}**: {peer.about}." for peer in peers)
    sections = [
        f"## {task}, {_describe(spoilt)}\n\n{_tabulate(_HEADINGS, map(_list_facts, group))}"
        for (task, spoilt), group in groupby(cells, lambda cell: (cell.task, cell.spoilt))
    ]
    verdicts = _tabulate(_VERDICT, judge(cells))
    parts = [_PREAMBLE, missing, "## Who is ahead", _BAR, verdicts, *sections]
    parts += ["## Settings", _SETTINGS, settings, "## Machine", facts]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def judge(cells: Sequence[Cell]) -> list[tuple[str, ...]]:
    """Rows of who is ahead at the same budget."""
    rows = []
    for (task, spoilt, budget), group in groupby(cells, lambda c: (c.task, c.spoilt, c.budget)):
        by_name = {cell.peer: cell for cell in group}
        others = [cell for name, cell in by_name.items() if "owlfi" not in name]
        if not budget or OURS not in by_name or not others:
            continue
        own, best = by_name[OURS], min(others, key=lambda cell: cell.rmse)
        ratio = own.rmse / best.rmse
        met = ratio < 1 if _NEAR[budget] == 1 else ratio <= _NEAR[budget]
        met &= own.failed / own.data_sets <= best.failed / best.data_sets
        closed = f"{by_name[CLOSED].rmse:.3g}" if CLOSED in by_name else ""
        sets = f"{own.data_sets} / {best.data_sets}"
        numbers = closed, f"{best.peer} ({best.rmse:.3g})", f"{ratio:.2g}", sets
        where = task, _describe(spoilt), f"{budget:,}", f"{own.rmse:.3g}"
        rows.append((*where, *numbers, "yes" if met else "NO"))
    return rows


def _list_facts(cell: Cell) -> tuple[str, ...]:
    error = "" if math.isnan(cell.error) else f" ± {cell.error:.1g}"
    failed = f", {cell.failed} without an answer" if cell.failed else ""
    return (
        f"{cell.budget:,}" if cell.budget else "",
        cell.peer,
        f"{cell.rmse:.3g}{error}",
        f"{cell.coverage:.0%}",
        f"{cell.calls:,.0f}" if cell.failed < cell.data_sets else "",
        f"{cell.derivatives:,.0f}" if cell.derivatives else "",
        f"{cell.seconds:.2g}" if cell.seconds < 10 else f"{cell.seconds:.0f}",
        f"{cell.data_sets}{failed}",
    )


def _describe(spoilt: bool) -> str:
    return "10% strays" if spoilt else "clean"


def _tabulate(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [list(headings), ["---"] * len(headings), *map(list, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def draw(cells: Sequence[Cell]) -> Figure:
    """RMSE against calls, a panel for each task and kind of data."""
    tasks = list(dict.fromkeys(cell.task for cell in cells))
    names = list(dict.fromkeys(cell.peer for cell in cells if cell.budget))
    colors = {name: f"C{place}" for place, name in enumerate(names)}
    figure = Figure(figsize=(2.6 * max(len(tasks), 1) + 1, 5.6), layout="constrained")
    panels = figure.subplots(2, max(len(tasks), 1), squeeze=False, sharex=True)
    for column, task in enumerate(tasks):
        for row, spoilt in enumerate((False, True)):
            some = [c for c in cells if c.task == task and c.spoilt == spoilt]
            _draw_panel(panels[row, column], some, colors)
            panels[row, column].set_title(f"{task}, {_describe(spoilt)}", fontsize=9)
    figure.supxlabel("calls of the simulator")
    figure.supylabel("RMSE / prior sd")
    handles = {line.get_label(): line for ax in panels.flat for line in ax.get_lines()}
    figure.legend(handles.values(), handles.keys(), loc="outside right center", fontsize=7)
    return figure


def _draw_panel(axes: Axes, cells: Sequence[Cell], colors: Mapping[str, str]) -> None:
    for name, color in colors.items():
        own = [c for c in cells if c.peer == name and c.failed < c.data_sets]
        if own:
            style = "o-" if name.startswith("owlfi") else "s--"
            places, errors = [c.calls for c in own], [c.rmse for c in own]
            axes.plot(places, errors, style, color=color, label=name, markersize=4)
    for name, style in (("MLE", ":"), ("MLE of the inliers", "-")):
        for cell in (c for c in cells if c.peer == name):
            axes.axhline(cell.rmse, color="k", linestyle=style, linewidth=0.8, label=name)
    axes.set(xscale="log", yscale="log", xlim=(500, 200_000))


_HEADINGS = (
    "budget",
    "method",
    "RMSE / prior sd",
    "90% cover",
    "calls",
    "derivatives",
    "CPU s",
    "data sets",
)
_VERDICT = (
    "task",
    "data",
    "budget",
    OURS,
    "black box",
    "best peer",
    "ratio",
    "data sets",
    "bar met",
)
_BAR = (
    "The bar for the efficient discrepancy: a smaller RMSE than every peer at 1,000 and 10,000 "
    "calls, at most 1.1 times that of the best at 100,000, and no larger share of fits without an "
    "answer, whose RMSE is only that of the prior's mean."
)
_PREAMBLE = """\
# owlfi beside what people would use instead

Written by `make compare`; every method has the same data sets, prior and simulator.
**One call is one simulated row**: a simulated data set of n rows costs n calls, for everybody.
RMSE is in units of the prior's standard deviation, mean over the parameters, ± its standard error;
coverage is that of central 90% intervals, pooled over parameters. A fit without an answer counts as
the prior's mean and covers nothing. Seconds are of the processor, the median over data sets, so
that compilation of the first is left out, and the training of a network is counted for every
data set though some share it. A full run has 50 data sets a cell, 10 for sbi and ELFI; rows of
fewer are from a run that was stopped, and a single data set says little.

Derivatives of simulated rows by one parameter are no calls, and no peer has them; "black box" is
the same method without: it differences, and all rows it needs are calls. g-and-k and MA(2) have
n = 200 rows, strays around 50; Ornstein-Uhlenbeck and Ricker are those of Huang et al. (2023) with
n = 100 and strays of another theta. MLE is exact maximum likelihood of all rows, searched from the
truth; Ricker has none in closed form.

![RMSE against calls of the simulator](compare.png)"""
_SETTINGS = f"""\
Methods of whole data sets (NPE, SMC, BOLFI) have the same summaries: octiles (g-and-k), the mean
autocovariances of lags 0 to 2 (MA(2)), the mean path at every fourth time with the log deviation
at the last (Ornstein-Uhlenbeck), the means over rows of log mean, share of zeros, log maximum, log
deviation and two autocorrelations of the roots (Ricker). Where a budget does not do for
{FEWEST_SETS} data sets of n rows, theirs have fewer rows, so that there are {FEWEST_SETS}. Methods
of single rows (NLE, owlfi) see the rows themselves, for Ricker those six summaries of each."""
