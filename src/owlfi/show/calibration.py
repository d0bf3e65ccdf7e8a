"""Pictures of a calibration."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from scipy.special import ndtri

from owlfi._tools.checks import as_kind
from owlfi.results.calibration import Calibration
from owlfi.results.uniformity import binomial_band
from owlfi.show.axes import as_axes, hide_frame
from owlfi.show.words import as_label

_FEWEST = 10  # data sets in a bar
_POINTS = 101


def ranks(calibration: Calibration, axes: Any = None) -> np.ndarray:
    """A histogram of the levels of the truths for each parameter, flat where all is well.

    The band holds 95% of the bars of a calibrated method. Levels in the tails: intervals are too
    narrow; in the middle: too wide; on one side: biased.

    >>> import jax.numpy as jnp
    >>> levels = jnp.linspace(0.01, 0.99, 40)[:, None]
    >>> known = Calibration(("a",), levels, levels, levels, levels, levels, levels[:, 0])
    >>> ranks(known).shape
    (1,)
    """
    axes = as_axes(axes, 1, len(_as_calibration(calibration).names))
    n = calibration.data_sets
    bins = int(np.clip(n // _FEWEST, 4, 20))
    low, high = _bar_band(n, bins)
    for j, (ax, name) in enumerate(zip(axes, calibration.names, strict=True)):
        ax.axhspan(low, high, color="0.85", linewidth=0)
        ax.hist(np.asarray(calibration.levels)[:, j], bins, range=(0, 1), color="C0", alpha=0.7)
        ax.axhline(n / bins, color="0.3", linewidth=0.8)
        ax.set(
            xlabel=as_label(f"level of {name}"), xlim=(0, 1), ylabel="data sets" if j == 0 else ""
        )
        hide_frame(ax)
    return axes


def coverage(calibration: Calibration, ax: Axes | None = None) -> Axes:
    """How often central intervals of every level hold the truth, less the level itself.

    With 95% binomial bands; dotted for all parameters together, by random points.

    >>> import jax.numpy as jnp
    >>> levels = jnp.linspace(0.01, 0.99, 40)[:, None]
    >>> known = Calibration(("a",), levels, levels, levels, levels, levels, levels[:, 0])
    >>> coverage(known).get_xlabel()
    'level of the interval'
    """
    axis: Axes = as_axes(ax, 1, 1)[0]
    at, n = np.linspace(0, 1, _POINTS), _as_calibration(calibration).data_sets
    counts = np.outer(at, [n]).round().astype(int)[:, 0]
    bands = np.array([binomial_band(int(k), n) for k in counts]) - at[:, None]
    axis.fill_between(at, *bands.T, color="0.85", linewidth=0)
    depth = np.abs(2 * np.asarray(calibration.levels) - 1)
    for j, name in enumerate(calibration.names):
        axis.plot(at, np.mean(depth[:, [j]] <= at, axis=0) - at, label=as_label(name))
    joint = np.asarray(calibration.joint)
    known = joint[np.isfinite(joint)]
    if len(calibration.names) > 1 and len(known):
        shares = np.mean(known[:, None] <= at, axis=0) - at
        axis.plot(at, shares, color="k", linestyle=":", label="all together")
    axis.axhline(0, color="0.3", linewidth=0.8)
    axis.set(xlabel="level of the interval", ylabel="coverage less level", xlim=(0, 1))
    axis.legend(frameon=False, fontsize=7)
    hide_frame(axis)
    return axis


def _as_calibration(calibration: Any) -> Calibration:
    return as_kind("calibration", calibration, Calibration, "a Calibration")


def _bar_band(n: int, bins: int) -> tuple[float, float]:
    """Counts of one bar of a flat histogram, by the normal approximation, 95% of the time."""
    half = float(ndtri(0.975)) * np.sqrt(n / bins * (1 - 1 / bins))
    return max(0.0, n / bins - half), n / bins + half
