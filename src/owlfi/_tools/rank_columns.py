"""The order of numbers in columns: `scipy.stats`, which has it too, takes a second to load."""

import numpy as np
from jaxtyping import Float


def rank_columns(rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """The ranks 1 to n of each column; equal numbers share the mean of theirs.

    >>> rank_columns(np.array([[3.0], [1.0], [3.0], [2.0]])).ravel()
    array([3.5, 1. , 3.5, 2. ])
    """
    order = np.argsort(rows, axis=0, kind="stable")
    ordered, places = np.take_along_axis(rows, order, 0), np.arange(len(rows))[:, None]
    new = np.ones((len(rows) + 1, rows.shape[1]), bool)
    new[1:-1] = ordered[1:] != ordered[:-1]
    first = np.maximum.accumulate(np.where(new[:-1], places, 0))
    last = np.minimum.accumulate(np.where(new[1:], places, len(rows))[::-1])[::-1]
    ranks = np.empty(rows.shape)
    np.put_along_axis(ranks, order, 1 + (first + last) / 2, 0)
    return ranks
