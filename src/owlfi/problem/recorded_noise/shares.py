"""Which coordinates of u the variation of y comes from."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Array, Float
from scipy.special import ndtri

from owlfi._tools.rank_columns import rank_columns


def share_variation(
    points: Float[Array, "m s"], y: Float[Array, "t m d"], groups: Sequence[Sequence[int]]
) -> tuple[float, ...]:
    """The share of the variance of y that each group of coordinates explains alone, and the rest.

    By ridge regression of the ranks of y on the normal scores of u, whose penalty leaves out what
    chance would explain.
    """
    scores = _score(np.asarray(points))
    ranks = np.concatenate([_score(rows) for rows in np.asarray(y)], 1)
    ranks = ranks[:, ranks.std(0) > 0]
    if not ranks.size:
        return (*[0.0] * len(groups), 0.0)
    left, sizes, right = np.linalg.svd(scores, full_matrices=False)
    shrunk = sizes / (sizes**2 + scores.shape[1])
    slopes = right.T @ (shrunk[:, None] * (left.T @ ranks))
    explained = (slopes**2).mean(1) / (ranks**2).mean()
    found = [float(explained[list(group)].sum()) for group in groups]
    total = max(1.0, sum(found))
    return (*(part / total for part in found), max(0.0, 1 - sum(found)))


def _score(columns: np.ndarray) -> np.ndarray:
    """Each column by its ranks, as normal scores; 0 where it is constant.

    Runs that failed are put in the middle.
    """
    fine = np.isfinite(columns).all(1)
    columns = np.where(fine[:, None], columns, np.median(columns[fine], 0))
    ranks = rank_columns(columns)
    scores = ndtri((ranks - 0.5) / len(columns))
    return np.where(np.ptp(columns, axis=0) > 0, scores - scores.mean(0), 0.0)
