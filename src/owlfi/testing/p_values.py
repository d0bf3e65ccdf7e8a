"""From statistics of the data and of the null hypothesis to p-values that keep their level.

All functions take the observed statistic as the first of 1 + B, and treat all of them alike: where
they are exchangeable under the null hypothesis, P(p ≤ level) ≤ level for every B.
"""

from math import ceil, floor
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from owlfi._tools.checks import as_count, as_probability

BANDWIDTHS = (0.35, 0.5, 0.7, 1.0, 1.4, 2.0)
"""Multiples of the median lengthscale that an aggregated test looks at."""
FEWEST_ROWS = 5
_ROUNDING = 1e-9  # level · (1 + B) may be a whole number but for it
_TIE = 1e-9  # standard deviations: equal statistics differ by the order in which they are summed


class Decision(NamedTuple):
    """A p-value, and the value that the statistic must exceed to reject."""

    p_value: float
    critical_value: float


def decide(statistics: Float[np.ndarray, " b"], level: float) -> Decision:
    """p = (1 + k) / (1 + B), k the null statistics not below the observed, and the matching rank.

    Null statistics that are NaN count as +∞.

    Raises ValueError where the observed one is NaN.

    >>> decide(np.array([3.0, 1.0, 2.0, 4.0]), level=0.5)
    Decision(p_value=0.5, critical_value=2.0)
    """
    if np.isnan(statistics[0]):
        raise ValueError("the statistic of the data is NaN; mend the kernel or the simulator")
    observed, null = statistics[0], np.where(np.isnan(statistics), np.inf, statistics)[1:]
    known = statistics[np.isfinite(statistics)]
    tie = _TIE * np.std(known) if len(known) else 0.0
    allowed = floor(level * len(statistics) + _ROUNDING)
    critical = np.sort(null)[-allowed] if allowed <= len(null) else -np.inf
    return Decision(float((1 + np.sum(null >= observed - tie)) / len(statistics)), float(critical))


def largest_studentised(statistics: Float[np.ndarray, "b l"]) -> Float[np.ndarray, " b"]:
    """The largest of l statistics, each in standard deviations from its own mean over all b.

    >>> largest_studentised(np.array([[1.0, 10.0], [3.0, 30.0], [2.0, 50.0]])).round(2)
    array([-1.22,  1.22,  1.22])
    """
    return studentise(statistics).max(axis=1)


def studentise(statistics: Float[np.ndarray, "b l"]) -> Float[np.ndarray, "b l"]:
    """Each in standard deviations from its own mean over all b.

    Statistics of failed fits are infinite, and stay so.
    """
    known = np.where(np.isfinite(statistics), statistics, np.nan)
    spread = np.nanstd(known, axis=0)
    return (statistics - np.nanmean(known, axis=0)) / np.where(spread > 0, spread, 1.0)


def check_level(resamples: Any, level: Any, name: str = "resamples") -> tuple[int, float]:
    """Both as plain numbers. Raises ValueError where so few resamples can never reject.

    name: what errors call the resamples.
    """
    level = as_probability("level", level)
    resamples = as_count(name, resamples)
    fewest = ceil(min(1 / level, 1e9) - _ROUNDING) - 1  # of tiny levels, more than can be
    if resamples < fewest:
        raise ValueError(
            f"{name} = {resamples} can never reject at level {level}: the smallest p-value is "
            f"1/{resamples + 1}; use at least {fewest}"
        )
    return resamples, level


def check_varies(observed: Any) -> None:
    """Raises ValueError for data without any spread."""
    if np.ptp(np.asarray(observed), axis=0).max() == 0:
        raise ValueError("observed is constant: all rows are equal; give data that vary")


def check_rows(name: str, rows: int) -> None:
    """Raises ValueError for samples too small to say anything."""
    if rows < FEWEST_ROWS:
        raise ValueError(f"{name} has {rows} rows; a test needs at least {FEWEST_ROWS}")
