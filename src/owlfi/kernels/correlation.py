"""Correlations from few rows, that no outlier moves and that can always be inverted."""

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from owlfi._tools.rank_columns import rank_columns


def rank_correlation(sample: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "d d"]:
    """The correlation of normal scores of the ranks, shrunk a little towards none.

    The share of Schäfer and Strimmer (2005) is the variance of all entries over their squares. It
    suits the entries; the inverse suffers from it where columns are nearly determined by each
    other, and takes as much of it as there are columns for each row.
    Columns without variance have correlation 0 with others.

    >>> pairs = np.random.default_rng(0).multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]], 500)
    >>> rank_correlation(np.exp(3 * pairs)).round(1)
    array([[1. , 0.8],
           [0.8, 1. ]])
    """
    n, d = sample.shape
    scores = _standardise(ndtri((rank_columns(sample) - 0.5) / n))
    others = 1 - np.eye(d)
    found = others * (scores.T @ scores) / n
    variances = min(1.0, d / n) * others * ((scores**2).T @ scores**2 / n - found**2) / n
    squares = (found**2).sum()
    share = min(1.0, variances.sum() / squares) if squares > 0 else 1.0
    return np.eye(d) + (1 - share) * found


def _standardise(scores: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """With mean 0 and variance 1; 0 where a column is constant."""
    varies = scores.max(0) > scores.min(0)
    return np.where(varies, (scores - scores.mean(0)) / np.where(varies, scores.std(0), 1.0), 0.0)
