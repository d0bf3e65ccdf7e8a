"""Axes to draw on: those that are given, or new ones."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from owlfi._tools.checks import as_count, brief, positive

WIDE = 4  # axes in a row
_MOST = 100  # rows or columns of axes


def new_axes(rows: int = 1, columns: int = 1, size: float = 2.4) -> np.ndarray:
    """An array (rows, columns) of empty axes on a figure of their own (`axes.flat[0].figure`).

    >>> new_axes(2, 3).shape
    (2, 3)
    """
    rows, columns = (
        as_count(name, value, most=_MOST) for name, value in (("rows", rows), ("columns", columns))
    )
    size = float(positive("size", size, number=True))
    figure = new_figure(size * columns + 0.4, size * rows)
    return figure.subplots(rows, columns, squeeze=False)


def new_figure(width: float, height: float) -> Figure:
    """So many inches wide and high; notebooks show it below the cell, others have it returned."""
    if not _in_notebook():
        return Figure(figsize=(width, height), layout="constrained")
    from matplotlib import pyplot

    return pyplot.figure(figsize=(width, height), layout="constrained")


@contextmanager
def plain_style() -> Iterator[None]:
    """Matplotlib's own settings for a while: pages are white, whatever plots are elsewhere."""
    with style.context("default"):
        yield


def keep_from_notebook(figure: Figure) -> None:
    """Of a figure that has its place elsewhere."""
    if _in_notebook():
        from matplotlib import pyplot

        pyplot.close(figure)


def _in_notebook() -> bool:
    return "ipykernel" in sys.modules


def grid(count: int) -> np.ndarray:
    """So many axes in rows of at most four."""
    columns = min(count, WIDE)
    axes = new_axes(-(-count // columns), columns).ravel()
    for spare in axes[count:]:
        spare.set_visible(False)
    return axes[:count]


def as_axes(axes: Any, rows: int, columns: int) -> np.ndarray:
    """Those given, or new ones, as an array of so many; ValueError for another number."""
    if axes is None:
        return new_axes(rows, columns).ravel()
    try:
        given = np.asarray(axes, object).ravel()
    except Exception:  # of its own __array__
        given = np.empty(0)
    if given.size != rows * columns or not all(isinstance(each, Axes) for each in given):
        found = f"{given.size}: {brief(axes)}"
        raise ValueError(f"axes must hold {rows * columns} axes, got {found}")
    return given


def hide_frame(ax: Axes) -> None:
    """Leave the axes themselves, without the lines above and to the right.

    >>> ax = new_axes()[0, 0]
    >>> hide_frame(ax)
    >>> ax.spines["top"].get_visible()
    False
    """
    ax.spines[["top", "right"]].set_visible(False)
