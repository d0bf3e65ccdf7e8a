"""Do rows depend on their neighbours? A series given as independent rows has errors too small."""

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from owlfi._tools.rank_columns import rank_columns

_FALSE_ALARMS = 5e-5  # of all data sets with independent rows
_FEWEST, _MOST = 20, 10_000  # rows that are looked at


def tell_dependence(name: str, rows: Float[np.ndarray, "n d"]) -> tuple[str, ...]:
    """A sentence where the rank correlation of each row with the next is no chance, or none.

    Rows that are sorted by a column tell nothing by their order.

    >>> rng = np.random.default_rng(0)
    >>> tell_dependence("x", rng.normal(size=(500, 2)))
    ()
    >>> len(tell_dependence("x", rng.normal(size=(500, 2)).cumsum(0)))
    1
    """
    some = rows[:_MOST]
    if len(some) < _FEWEST or _are_sorted(some):
        return ()
    found, threshold = _correlate_neighbours(some)
    worst = int(np.argmax(np.abs(found) - threshold))
    if abs(found[worst]) <= threshold[worst]:
        return ()
    return (
        f"Rows of {name} depend on their neighbours (column {worst} has rank correlation "
        f"{found[worst]:.2f} with the row before), but are taken as independent draws: standard "
        "errors, intervals and p-values are wrong; give each independent series as one row, or "
        "take rows that are far apart",
    )


def _are_sorted(rows: np.ndarray) -> bool:
    """By some column that is not constant."""
    steps = np.diff(rows, axis=0)
    monotone = (steps >= 0).all(0) | (steps <= 0).all(0)
    return bool((monotone & (steps != 0).any(0)).any())


def _correlate_neighbours(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each column, and what a share of false alarms over all columns leaves to chance.

    Under any order of the ranks r the correlation has mean -1/n, variance about 1/n and skewness
    about skew(r)²/√n: none without ties, much where most values are equal, so that the normal
    threshold is corrected for it (Cornish and Fisher 1938).
    """
    n, d = rows.shape
    ranks = rank_columns(rows)
    ranks = ranks - ranks.mean(0)
    spread = np.sqrt((ranks**2).mean(0))
    ranks = ranks / np.where(spread > 0, spread, 1.0)  # constant columns have correlation 0
    found = (ranks[1:] * ranks[:-1]).sum(0) / n
    z = -ndtri(_FALSE_ALARMS / (2 * d))
    skewness = (ranks**3).mean(0) ** 2 / np.sqrt(n)
    return found, (z + (z**2 - 1) / 6 * skewness) / np.sqrt(n) + 1 / n
