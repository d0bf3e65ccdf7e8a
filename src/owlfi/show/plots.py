"""Pictures of results, drawn on the axes that are given or on new ones, which are returned."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from owlfi._tools.checks import as_array, as_kind
from owlfi.problem.problem import Problem, as_problem
from owlfi.results import Estimate, HypothesisTest, Posterior
from owlfi.show.axes import as_axes, hide_frame, new_axes, new_figure
from owlfi.show.bins import choose_bins
from owlfi.show.calibration import coverage, ranks
from owlfi.show.check import check, draw_column
from owlfi.show.directions import directions
from owlfi.show.observations import observations
from owlfi.show.words import as_label
from owlfi.weights.quadrature import Quadrature, as_quadrature

__all__ = [
    "check",
    "coverage",
    "directions",
    "draw_null",
    "hide_frame",
    "marginals",
    "new_axes",
    "null_histogram",
    "observations",
    "pairs",
    "predictive",
    "ranks",
    "trace",
    "weights",
]

_BINS = 30
_TRUTH: dict[str, Any] = {"color": "k", "linewidth": 0.8}
_ESTIMATE: dict[str, Any] = {"color": "0.6", "linewidth": 0.8, "linestyle": "--"}


def marginals(
    posterior: Posterior, axes: Any = None, *, truth: Any = None, label: str | None = None
) -> np.ndarray:
    """A histogram of each parameter, with lines at the truth; call it again to compare.

    axes: one for each parameter.

    >>> import jax.numpy as jnp
    >>> draws = jnp.linspace(0.0, 1.0, 20)[:, None]
    >>> marginals(Posterior(("a",), draws, jnp.full(20, 0.05)), truth=[0.5]).shape
    (1,)
    """
    posterior, at = _as_posterior(posterior, truth)
    if label is not None:
        as_kind("label", label, str, "a text")
    axes = as_axes(axes, 1, len(posterior.names))
    for j, (ax, name) in enumerate(zip(axes, posterior.names, strict=True)):
        _histogram(ax, posterior, j, None if label is None else as_label(label))
        if at is not None:
            ax.axvline(at[j], **_TRUTH)
        ax.set_xlabel(as_label(name))
        ax.set_yticks([])
        hide_frame(ax)
    if label is not None:
        axes[0].legend(frameon=False, fontsize=7)
    return axes


def pairs(posterior: Posterior, axes: Any = None, *, truth: Any = None) -> np.ndarray:
    """Histograms on the diagonal and every pair of parameters below it, (p, p) axes.

    >>> import jax.numpy as jnp
    >>> draws = jnp.linspace(0.0, 1.0, 20)[:, None] ** jnp.array([[1, 2]])
    >>> pairs(Posterior(("a", "b"), draws, jnp.full(20, 0.05))).shape
    (2, 2)
    """
    posterior, at = _as_posterior(posterior, truth)
    p, names = len(posterior.names), list(map(as_label, posterior.names))
    axes = as_axes(axes, p, p).reshape(p, p)
    draws, sizes = np.asarray(posterior.draws), np.asarray(posterior.weights)
    for (i, j), ax in np.ndenumerate(axes):
        if j > i:
            ax.set_visible(False)
        elif i == j:
            _histogram(ax, posterior, i, None)
            ax.set_yticks([])
        else:
            ax.scatter(draws[:, j], draws[:, i], 4 * sizes / sizes.max(), color="C0", alpha=0.5)
        if at is not None and j <= i:
            ax.axvline(at[j], **_TRUTH)
            if j < i:
                ax.axhline(at[i], **_TRUTH)
        ax.set_xlabel(names[j] if i == p - 1 else "")
        ax.set_ylabel(names[i] if j == 0 and i > 0 else "")
        hide_frame(ax)
    return axes


def trace(result: Estimate | Posterior, axes: Any = None) -> np.ndarray:
    """The way of a search to its estimate, or of the chains of a posterior, for each parameter.

    Dashed, the estimate: of rules that know other designs, it rests on these, too.

    Raises ValueError for an estimate that keeps no way, and for another number of axes.

    >>> import jax.numpy as jnp
    >>> draws = jnp.linspace(0.0, 1.0, 20)[:, None]
    >>> (ax,) = trace(Posterior(("a",), draws, jnp.full(20, 0.05), chains=2))
    >>> len(ax.lines)
    2
    """
    as_kind("result", result, Estimate | Posterior, "an Estimate or a Posterior")
    axes = as_axes(axes, 1, len(result.names))
    if isinstance(result, Estimate):
        if result.trace_thetas is None:
            raise ValueError("the estimate has no trace; minimum_distance gives one")
        lines = np.asarray(result.trace_thetas)[None]
    else:
        lines = np.asarray(result.draws).reshape(result.chains, -1, len(result.names))
    for j, (ax, name) in enumerate(zip(axes, result.names, strict=True)):
        if isinstance(result, Estimate):
            ax.axhline(float(result.theta[j]), **_ESTIMATE)
        ax.plot(lines[..., j].T, linewidth=0.7)
        ax.set(xlabel="step", title=as_label(name))
        hide_frame(ax)
    return axes


def predictive(problem: Problem, samples: Any, axes: Any = None) -> np.ndarray:
    """The observations against predicted ones (samples, rows, d), for each column.

    samples: what `predictive(...)` of a result gave.

    >>> import jax, owlfi
    >>> model = owlfi.models.g_and_k()
    >>> x = model(model.theta, owlfi.sobol(jax.random.key(0), 32, model.measure))
    >>> predictive(Problem(model, x), np.stack([x, x + 0.1])).shape
    (1,)
    """
    x, y = np.asarray(as_problem(problem).observed), np.asarray(as_array("samples", samples))
    if y.ndim != 3 or y.shape[2] != x.shape[1] or not y.size:
        raise ValueError(f"samples must have shape (samples, rows, {x.shape[1]}), got {y.shape}")
    axes = as_axes(axes, 1, x.shape[1])
    for j, ax in enumerate(axes):
        draw_column(ax, x[:, j], y[..., j], problem.columns[j])
    axes[0].legend(frameon=False, fontsize=7)
    return axes


def weights(quadrature: Quadrature, ax: Axes | None = None) -> Axes:
    """The weights of a design against its first coordinate, equal ones as a line.

    Raises ValueError for several designs at once.

    >>> import owlfi
    >>> c, noise = owlfi.SquaredExponential(1.0), owlfi.Normal()
    >>> weights(owlfi.optimal_weights(c, noise, np.linspace(-2, 2, 9))).get_ylabel()
    'weight'
    """
    axis: Axes = as_axes(ax, 1, 1)[0]
    u, w = np.asarray(as_quadrature(quadrature).points), np.asarray(quadrature.weights)
    if u.ndim != 2:
        raise ValueError(f"quadrature must hold one design, got points of shape {u.shape}")
    axis.vlines(u[:, 0], 0, w, color="C0", linewidth=0.8)
    axis.axhline(1 / len(w), color="0.5", linewidth=0.8)
    axis.set(xlabel="first coordinate of u", ylabel="weight")
    hide_frame(axis)
    return axis


def null_histogram(test: HypothesisTest) -> Figure:
    """The null statistics as a histogram, the observed one and the critical value as lines.

    >>> import jax.numpy as jnp
    >>> test = HypothesisTest(0.02, 0.25, 0.015, 0.3, jnp.array([0.005, 0.01, 0.015]))
    >>> len(null_histogram(test).axes)
    1
    """
    as_kind("test", test, HypothesisTest, "a HypothesisTest")
    figure = new_figure(4.6, 3.2)
    draw_null(figure.subplots(), test.null, test.statistic, test.critical_value)
    return figure


def draw_null(axes: Axes, null: Any, statistic: float, critical_value: float) -> None:
    """The same on given axes; statistics of failed fits are infinite and not drawn.

    >>> ax = new_axes()[0, 0]
    >>> draw_null(ax, [0.005, 0.01, 0.015], 0.02, 0.015)
    >>> ax.get_xlabel()
    'statistic'
    """
    values = np.asarray(null, float)
    known = values[np.isfinite(values)]
    if len(known):
        axes.hist(known, choose_bins(known), color="0.8", label="null statistics")
    if np.isfinite(critical_value):
        axes.axvline(critical_value, color="0.3", linestyle="--", label="critical value")
    axes.axvline(statistic, color="C0", label="observed")
    axes.set(xlabel="statistic", ylabel="count")
    axes.legend(frameon=True, framealpha=0.9, edgecolor="none", fontsize=7)
    axes.spines[["top", "right"]].set_visible(False)


def _as_posterior(posterior: Any, truth: Any) -> tuple[Posterior, list[float] | None]:
    """With the truth as plain numbers, where it is given."""
    as_kind("posterior", posterior, Posterior, "a Posterior")
    if truth is None:
        return posterior, None
    numbers = np.asarray(as_array("truth", truth))
    if numbers.shape != (len(posterior.names),):
        expected = f"the {len(posterior.names)} parameters {', '.join(posterior.names)}"
        raise ValueError(f"truth must hold {expected}, got shape {numbers.shape}")
    return posterior, numbers.tolist()


def _histogram(ax: Axes, posterior: Posterior, j: int, label: str | None) -> None:
    ax.hist(
        np.asarray(posterior.draws)[:, j],
        _BINS,
        weights=np.asarray(posterior.weights),
        density=True,
        alpha=0.5,
        label=label,
    )
