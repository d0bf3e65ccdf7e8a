"""The pictures that belong to each kind of result, with words for those who do not see them."""

from functools import singledispatch
from typing import Any

import numpy as np

from owlfi.results import (
    Calibration,
    Comparison,
    Estimate,
    HypothesisTest,
    Posterior,
    PredictiveCheck,
)
from owlfi.results.result import Result
from owlfi.show import plots
from owlfi.show.axes import WIDE, grid, new_axes
from owlfi.show.pages import Picture
from owlfi.show.words import as_label

_MOST_PAIRED = 6  # parameters of which all pairs are drawn


@singledispatch
def pictures_of(result: Result) -> tuple[Picture, ...]:
    """None where a kind has no pictures of its own."""
    return ()


@pictures_of.register
def _(result: Estimate) -> tuple[Picture, ...]:
    low, high = (np.asarray(end) for end in result.interval(0.9))
    words = _list_intervals(result.names, np.asarray(result.theta), low, high)
    axes = grid(len(result.names))
    for j, ax in enumerate(axes):
        center = float(result.theta[j])
        ax.errorbar([center], [0], xerr=[[center - low[j]], [high[j] - center]], fmt="o", capsize=4)
        ax.set(yticks=[], xlabel=as_label(result.names[j]), ylim=(-1, 1))
        ax.locator_params(axis="x", nbins=3)  # long numbers would meet
        ax.spines[["top", "right", "left"]].set_visible(False)
    _flatten(axes[0].figure, 1.3 * -(-len(axes) // WIDE))
    found = [Picture(axes[0].figure, "Estimates with 90% intervals", words)]
    if result.trace_thetas is not None and len(result.trace_thetas) > 1:
        way = plots.trace(result, grid(len(result.names)))
        words = f"The best value of each parameter after each of {len(result.trace_thetas)} steps."
        caption = "The way of the search on its first points; dashed, the estimate"
        found.append(Picture(way[0].figure, caption, words))
    if result.chances is not None:
        axis = plots.observations(result, new_axes(size=4.8).ravel())
        listed = ", ".join(map(str, result.outliers)) or "none"
        words = f"The chance of each observation under the model; those that do not fit: {listed}."
        found.append(Picture(axis.figure, "Which observations fit", words))
    return tuple(found)


@pictures_of.register
def _(result: Posterior) -> tuple[Picture, ...]:
    low, high = (np.asarray(end) for end in result.interval(0.9))
    words = "Histograms of the draws. " + _list_intervals(result.names, result.center, low, high)
    p = len(result.names)
    axes = plots.marginals(result, grid(p))
    found = [Picture(axes[0].figure, "Draws of each parameter", words)]
    if 1 < p <= _MOST_PAIRED:
        pairs = plots.pairs(result)
        found.append(Picture(pairs[0, 0].figure, "Pairs of parameters", _list_correlations(result)))
    if result.chains > 1:
        way = plots.trace(result, grid(p))
        words = f"The draws of {result.chains} chains one after the other, for each parameter."
        found.append(Picture(way[0].figure, "The way of the chains", words))
    return tuple(found)


@pictures_of.register
def _(result: HypothesisTest) -> tuple[Picture, ...]:
    words = (
        f"A histogram of {len(result.null)} null statistics; the observed one is "
        f"{result.statistic:.4g}, the critical value {result.critical_value:.4g}."
    )
    caption = "The observed statistic among those of the null hypothesis"
    return (Picture(plots.null_histogram(result), caption, words),)


@pictures_of.register
def _(result: Calibration) -> tuple[Picture, ...]:
    covered = zip(result.names, np.asarray(result.coverage(0.9)), strict=True)
    told = ", ".join(f"{name} {share:.0%}" for name, share in covered)
    ranks = plots.ranks(result, grid(len(result.names)))
    return (
        Picture(
            ranks[0].figure,
            "Levels of the truths: flat, inside the band, where the method is calibrated",
            f"Histograms of the levels of the truths in {result.data_sets} data sets.",
        ),
        Picture(
            plots.coverage(result, new_axes(size=3.6).flat[0]).figure,
            "Coverage of intervals of every level, less the level; the band is 95% binomial",
            f"Coverage curves. Intervals of level 90% cover: {told}.",
        ),
    )


@pictures_of.register
def _(result: PredictiveCheck) -> tuple[Picture, ...]:
    told = ", ".join(f"{name} p = {result[name]:.3g}" for name in result.names)
    caption = "Observed data beside data of the fitted model"
    return (Picture(plots.check(result), caption, f"Observed and replicated data. {told}."),)


@pictures_of.register
def _(result: Comparison) -> tuple[Picture, ...]:
    ax = new_axes(size=5.0).flat[0]  # a phone shows it whole
    order, errors = result.ranking[::-1], np.asarray(result.errors)
    values = [result[name] for name in order]
    spreads = [1.645 * errors[result.names.index(name)] for name in order]
    ax.errorbar(values, range(len(order)), xerr=spreads, fmt="o", capsize=4)
    names = list(map(as_label, order))
    ax.set(yticks=range(len(order)), yticklabels=names, xlabel="squared MMD, with 90% intervals")
    ax.set_ylim(-0.5, len(order) - 0.5)
    ax.spines[["top", "right"]].set_visible(False)
    _flatten(ax.figure, 1.0 + 0.5 * len(order))
    return (Picture(ax.figure, "How far each model is from the data", result.verdict),)


def _flatten(figure: Any, height: float) -> None:
    """Intervals need no room above and below them; height: in inches."""
    figure.set_size_inches(figure.get_size_inches()[0], height)


def _list_intervals(
    names: tuple[str, ...], centers: np.ndarray, low: np.ndarray, high: np.ndarray
) -> str:
    numbers = zip(names, centers, low, high, strict=True)
    return "; ".join(f"{n}: {c:.4g}, 90% from {a:.4g} to {b:.4g}" for n, c, a, b in numbers) + "."


def _list_correlations(result: Posterior) -> str:
    spread = np.outer(result.spread, result.spread)
    matrix = np.asarray(result.covariance) / np.where(spread > 0, spread, 1.0)
    found = [
        f"{result.names[j]} and {result.names[i]} {matrix[i, j]:.2f}"
        for i in range(len(matrix))
        for j in range(i)
    ]
    return f"Scatter plots of all pairs of parameters. Correlations: {', '.join(found)}."
