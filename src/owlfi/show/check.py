"""Pictures of a predictive check."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from owlfi._tools.checks import as_kind
from owlfi.results.predictive_check import PredictiveCheck
from owlfi.show.axes import hide_frame, new_axes, new_figure
from owlfi.show.bins import choose_bins
from owlfi.show.words import as_label

_MOST_PAIRED = 4  # columns of which all pairs are drawn
_MOST_SINGLE = 12  # columns; more are drawn as a series
_WIDE = 4  # pictures side by side


def check(found: PredictiveCheck) -> Figure:
    """Observed and replicated data: columns and their pairs, or a fan over the columns of a series.

    The observed rows that fit worst, by the witness function, are marked.

    >>> import jax.numpy as jnp
    >>> x, one = jnp.linspace(0.0, 1.0, 20), jnp.ones(1)
    >>> parts = one, jnp.ones((9, 1)), one, x[:, None], x[None, :, None], x, one
    >>> len(check(PredictiveCheck(("squared MMD",), *parts)).axes)
    1
    """
    as_kind("found", found, PredictiveCheck, "what owlfi.check gives")
    x, y = np.asarray(found.x), np.asarray(found.replicates)
    d = x.shape[1]
    if d > _MOST_SINGLE:
        return _draw_fan(found, x, y)
    if 1 < d <= _MOST_PAIRED:
        return _draw_pairs(found, x, y)
    columns = min(d, _WIDE)
    axes = new_axes(-(-d // columns), columns, size=3.2 if d == 1 else 2.4)
    for j, ax in enumerate(axes.flat):
        if j < d:
            draw_column(ax, x[:, j], y[..., j], found.columns[j])
        else:
            ax.set_visible(False)
    axes.flat[0].legend(frameon=False, fontsize=7)
    return axes.flat[0].figure


def draw_column(ax: Axes, x: Any, y: Any, name: str) -> None:
    """A histogram of observed numbers (n,) with the band of replicated ones (samples, rows)."""
    bins = np.array(choose_bins(x, beside=0.25))
    ax.hist(x, bins.tolist(), density=True, color="0.8", label="observed")
    heights = np.stack([np.histogram(rows, bins)[0] for rows in y])
    heights = heights / (y.shape[1] * (bins[1] - bins[0]))
    middle = 0.5 * (bins[1:] + bins[:-1])
    lower, upper = np.quantile(heights, [0.05, 0.95], axis=0)
    ax.fill_between(middle, lower, upper, color="C0", alpha=0.3, label="predicted, 90%")
    ax.plot(middle, np.median(heights, 0), color="C0")
    ax.set(yticks=[], xlabel=as_label(name))
    hide_frame(ax)


def _draw_pairs(found: PredictiveCheck, x: np.ndarray, y: np.ndarray) -> Figure:
    d, names = x.shape[1], list(map(as_label, found.columns))
    axes = new_axes(d, d)
    worst = np.argsort(-np.abs(np.asarray(found.row_scores)))[:3]
    ring = {"facecolors": "none", "edgecolors": "C3"}
    for (i, j), ax in np.ndenumerate(axes):
        if j > i:
            ax.set_visible(False)
        elif i == j:
            draw_column(ax, x[:, i], y[..., i], found.columns[i] if i == d - 1 else "")
        else:
            ax.scatter(*y[0][:, [j, i]].T, 4, color="C0", alpha=0.4, label="replicated")
            ax.scatter(*x[:, [j, i]].T, 4, color="0.3", alpha=0.6, label="observed")
            ax.scatter(*x[worst][:, [j, i]].T, 30, label="fit worst", **ring)
            ax.set(xlabel=names[j] if i == d - 1 else "", ylabel=names[i] if j == 0 else "")
            hide_frame(ax)
    figure = axes.flat[0].figure
    handles = axes[1, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="upper right", frameon=False, fontsize=8)  # no pair is drawn there
    return figure


def _draw_fan(found: PredictiveCheck, x: np.ndarray, y: np.ndarray) -> Figure:
    """Quantiles of the rows at each column, observed and replicated, and the worst row."""
    figure = new_figure(6.4, 3.2)
    ax, at = figure.subplots(), np.arange(x.shape[1])
    rows = y.reshape(-1, y.shape[-1])
    for low, high, alpha in ((0.05, 0.95, 0.2), (0.25, 0.75, 0.35)):
        ends = np.quantile(rows, [low, high], axis=0)
        words = f"predicted, {high - low:.0%}"
        ax.fill_between(at, *ends, color="C0", alpha=alpha, linewidth=0, label=words)
    for level, style in ((0.05, ":"), (0.5, "-"), (0.95, ":")):
        label = "observed, 5%, 50%, 95%" if level == 0.5 else None
        ax.plot(at, np.quantile(x, level, axis=0), style, color="0.2", label=label)
    worst = int(np.argmax(np.abs(np.asarray(found.row_scores))))
    ax.plot(at, x[worst], color="C3", linewidth=0.7, label="row that fits worst")
    ax.set(xlabel="column")
    figure.legend(loc="outside upper center", ncols=4, frameon=False, fontsize=8)
    hide_frame(ax)
    return figure
