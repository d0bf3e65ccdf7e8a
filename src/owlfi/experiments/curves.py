"""Errors against a quantity: medians over repeats with quartile bands, as a table and a picture."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from owlfi.experiments.experiment import Record, Table, group

NOTE = "Median excess over the repeats: the squared MMD of weighted simulations to their law."
_STYLES = (  # clear without colour, too
    ("0.45", "o--"),
    ("C0", "s-"),
    ("C1", "^-."),
    ("C2", "D:"),
    ("C3", "v--"),
)


def make_point(series: str, x: float, excess: list[float], **more: Any) -> Record:
    """A point of a curve: the excesses of all repeats."""
    return {"series": series, "x": x, "median": float(np.median(excess)), "excess": excess, **more}


def curve_table(records: list[Record], title: str, x_name: str) -> Table:
    """Median excesses, a row for each x, a column for each curve."""
    names = list(group(records, "series"))
    cells = {(point["x"], point["series"]): f"{point['median']:.2e}" for point in records}
    values = sorted(group(records, "x"))
    rows = [(f"{x:g}", *(cells.get((x, name), "") for name in names)) for x in values]
    return Table(title, (x_name, *names), rows, NOTE)


def curve_picture(records: list[Record], x_label: str, *, log_x: bool = True) -> Figure:
    """All curves in one picture."""
    figure = Figure(figsize=(5.2, 3.6))
    draw_curves(figure.subplots(), records, x_label, log_x=log_x)
    return figure


def draw_curves(axes: Axes, records: list[Record], x_label: str, *, log_x: bool = True) -> None:
    """The curves of the records on the axes."""
    for number, (name, points) in enumerate(group(records, "series").items()):
        draw_curve(axes, [p["x"] for p in points], points, number, name)
    label_axes(axes, x_label, "excess squared MMD", sorted(group(records, "x")), log_x=log_x)


def draw_curve(
    axes: Axes, x: Sequence[float], points: list[Record], number: int, name: str
) -> None:
    """One curve in its own style: the medians, and a band between the quartiles."""
    color, style = _STYLES[number % len(_STYLES)]
    low, middle, high = np.quantile([p["excess"] for p in points], (0.25, 0.5, 0.75), axis=1)
    axes.plot(x, middle, style, color=color, label=name, markersize=4)
    axes.fill_between(x, low, high, color=color, alpha=0.2, linewidth=0)


def label_axes(
    axes: Axes, x_label: str, y_label: str, ticks: Sequence[float] = (), *, log_x: bool = True
) -> None:
    """Names of the axes, a logarithmic error, and a legend."""
    axes.set(xlabel=x_label, ylabel=y_label, yscale="log", xscale="log" if log_x else "linear")
    if ticks:
        axes.set_xticks(ticks)
    else:
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.legend(fontsize=8)


def label_models(axes: Axes, names: list[str], y_label: str, columns: int, **ticks: Any) -> None:
    """Names of the models below, a logarithmic error, and a legend above."""
    axes.set(yscale="log", ylabel=y_label)
    axes.set_xticks(range(len(names)), names, **ticks)
    axes.legend(fontsize=7, ncols=columns, loc="upper center", bbox_to_anchor=(0.5, 1.16))
