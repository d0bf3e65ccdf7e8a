"""Which observations the model would hardly ever give: their chance, and how many are too many.

The distance of a row from the model is the -log of its kernel mean there. Its chance is the share
of simulated rows that are as far; beyond the farthest of them, a generalised Pareto tail goes on.
"""

import numpy as np
from jaxtyping import Bool, Float

_TAIL = 0.1  # of the simulations, to which the tail is fitted
_KNOWN = 20  # times as rare as one simulation: rarer rows are not told from rare ones ...
_BEYOND = 2.0  # ... nearer than this, in distances of the farthest simulation
_LEVEL = 0.01  # of the observations said not to fit, this share may fit, on average


def chances_of(
    distances: Float[np.ndarray, " n"], simulated: Float[np.ndarray, " m"]
) -> Float[np.ndarray, " n"]:
    """The probability under the model of rows at least as far as each observation.

    >>> usual = -np.log(np.linspace(1e-3, 1, 1000))  # exponential
    >>> chances_of(np.array([0.0, 2.0, 20.0]), usual).round(2)
    array([1.  , 0.14, 0.  ])
    """
    ordered = np.sort(simulated)
    m = len(ordered)
    ranks = (m + 1 - np.searchsorted(ordered, distances, side="left")) / (m + 1)
    start = ordered[int((1 - _TAIL) * m)]
    beyond = ordered[ordered > start] - start
    if len(beyond) < 2 or not beyond.var() > 0:
        return ranks
    ratio = beyond.mean() ** 2 / beyond.var()
    shape, scale = max(0.5 * (1 - ratio), 0.0), 0.5 * beyond.mean() * (1 + ratio)
    scale = beyond.mean() if shape == 0 else scale
    excess = np.maximum(distances - start, 0.0) / scale
    tail = np.exp(-excess) if shape == 0 else (1 + shape * excess) ** (-1 / shape)
    chances = np.where(distances > start, np.minimum(len(beyond) / m * tail, 1.0), ranks)
    near = distances < _BEYOND * ordered[-1]
    return np.where(near, np.maximum(chances, 1 / (_KNOWN * m)), chances)


def find_outliers(chances: Float[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
    """Those with smaller chances than so many observations explain (Benjamini and Hochberg 1995).

    >>> find_outliers(np.array([0.4, 1e-9, 0.01, 0.7])).tolist()
    [False, True, False, False]
    """
    n = len(chances)
    ordered = np.sort(chances)
    below = np.flatnonzero(ordered <= _LEVEL * np.arange(1, n + 1) / n)
    return chances <= (ordered[below[-1]] if len(below) else -1.0)
