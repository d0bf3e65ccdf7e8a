"""A picture of a test: the null distribution, what was observed, and where rejection begins."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from owlfi.results import HypothesisTest


def null_histogram(test: HypothesisTest) -> Figure:
    """The null statistics as a histogram, the observed one and the critical value as lines.

    >>> import jax.numpy as jnp
    >>> test = HypothesisTest(0.02, 0.25, 0.015, 0.3, jnp.array([0.005, 0.01, 0.015]))
    >>> len(null_histogram(test).axes)
    1
    """
    figure = Figure(figsize=(4.6, 3.2), layout="constrained")
    draw_null(figure.subplots(), test.null, test.statistic, test.critical_value)
    return figure


def draw_null(axes: Axes, null: Any, statistic: float, critical_value: float) -> None:
    """The same on given axes; statistics of failed fits are infinite and not drawn."""
    values = np.asarray(null)
    axes.hist(values[np.isfinite(values)], bins="auto", color="0.8", label="null statistics")
    if np.isfinite(critical_value):
        axes.axvline(critical_value, color="0.3", linestyle="--", label="critical value")
    axes.axvline(statistic, color="C0", label="observed")
    axes.set(xlabel="statistic", ylabel="count")
    axes.legend(framealpha=0.9, edgecolor="none", fontsize=7)
    axes.spines[["top", "right"]].set_visible(False)
