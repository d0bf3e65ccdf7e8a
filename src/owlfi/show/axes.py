"""Axes to draw on: those that are given, or new ones."""

from typing import Any

import numpy as np
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
    figure = Figure(figsize=(size * columns + 0.4, size * rows), layout="constrained")
    return figure.subplots(rows, columns, squeeze=False)


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
