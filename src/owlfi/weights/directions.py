"""Along which directions of the noise do simulations vary, as k sees them?

Derivatives tell best: H = mean JᵀJ / (1 + |J|²), where J is that of y, in units of k's lengthscale,
by the normal scores of u. Large J count less, since k has long saturated there. Where there are
none, a ridge regression of what k sees on the scores tells.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from owlfi._tools.arrays import as_jax
from owlfi.measures import Measure, Rotated, rotation_to

FEWEST_COORDINATES = 4
"""Below, points fill all coordinates well as they are."""
MOST_GIVEN = 20
"""Above, points drawn in the coordinates that were given serve no kernel."""
MOST_DIRECTIONS = 20
_SPARE = 12  # directions beyond those that are wanted, which make the iteration converge
_ITERATIONS = 4
_LEAST_SHARE = 1e-6
_FEATURES = 16
_FARTHEST = 1e100  # whose square is finite
_MOST_ROWS = 3072  # of a regression
_PENALTIES = (0.01, 0.1, 1.0, 10.0)  # in units of the number of scores


class Directions(NamedTuple):
    """Orthonormal directions of the scores, best first, and their shares of what k sees."""

    vectors: Float[np.ndarray, "n r"]
    shares: Float[np.ndarray, " r"]


def bound_slopes(slopes: Float[np.ndarray, "m d n"]) -> Float[np.ndarray, "e n"]:
    """Rows G with GᵀG = Σ JᵀJ / (1 + |J|²) over the points; those not finite are left out."""
    finite = slopes[np.isfinite(slopes).all((1, 2))]
    bounded = finite / np.sqrt(1 + (finite**2).sum((1, 2), keepdims=True))
    return bounded.reshape(-1, slopes.shape[-1])


def leading_directions(rows: Float[np.ndarray, "e n"]) -> Directions | None:
    """The leading eigenvectors of GᵀG, by randomised subspace iteration; None where G is 0."""
    total = float((rows**2).sum())
    if not total > 0:
        return None
    size = min(MOST_DIRECTIONS + _SPARE, *rows.shape)
    basis = np.random.default_rng(0).standard_normal((rows.shape[1], size))
    for _ in range(_ITERATIONS):
        basis = np.linalg.qr(rows.T @ (rows @ basis))[0]
    _, values, right = np.linalg.svd(rows @ basis, full_matrices=False)
    shares = values**2 / total
    kept = min(MOST_DIRECTIONS, int((shares > _LEAST_SHARE).sum()))
    return Directions(basis @ right[:kept].T, shares[:kept])


def regress_directions(
    scores: Float[np.ndarray, "t m n"], seen: Float[np.ndarray, "t m c"]
) -> Directions | None:
    """From rows of some thetas, as k sees them; None where the scores explain nothing of them.

    What is regressed are the leading features of a squared exponential on the rows, whose large
    deviations count less, too. Each theta is centred, so that thetas share features.
    seen: NaN in rows that failed, which are left out.
    """
    t, m, n = scores.shape
    fine = np.isfinite(seen).all(2)
    held = np.where(fine[..., None], seen, 0.0)
    means = held.sum(1, keepdims=True) / np.maximum(fine.sum(1), 1)[:, None, None]
    rows, kept = (held - means).reshape(t * m, -1), np.flatnonzero(fine)
    chosen = kept[:: max(1, -(-len(kept) // _MOST_ROWS))]
    slopes = _regress(scores.reshape(t * m, n)[chosen], _features(rows[chosen]))
    return None if slopes is None else leading_directions(slopes)


def _regress(
    scores: Float[np.ndarray, "e n"], features: Float[np.ndarray, "e f"]
) -> Float[np.ndarray, "f n"] | None:
    """By the ridge that predicts held-out rows best; None if not better than a constant."""
    n, held_out = scores.shape[1], slice(1, None, 2)

    def unexplained(penalty: float) -> float:
        slopes = _ridge(scores[::2], features[::2], n * penalty)
        return float(((features[held_out] - scores[held_out] @ slopes) ** 2).sum())

    best = min(_PENALTIES, key=unexplained)
    if not unexplained(best) < (features[held_out] ** 2).sum():
        return None
    return _ridge(scores, features, n * best).T


def _ridge(x: Float[np.ndarray, "e n"], y: Float[np.ndarray, "e f"], penalty: float) -> np.ndarray:
    """By the smaller of both systems."""
    if len(x) > x.shape[1]:
        return np.linalg.solve(x.T @ x + penalty * np.eye(x.shape[1]), x.T @ y)
    return x.T @ np.linalg.solve(x @ x.T + penalty * np.eye(len(x)), y)


def _features(rows: Float[np.ndarray, "e c"]) -> Float[np.ndarray, "e f"]:
    """The leading kernel principal components."""
    rows = rows.clip(-_FARTHEST, _FARTHEST)
    squares = (rows**2).sum(1)
    gram = np.exp(-0.5 * np.maximum(squares[:, None] + squares - 2 * rows @ rows.T, 0.0))
    centred = gram - gram.mean(0)
    centred -= centred.mean(1, keepdims=True)
    size = min(_FEATURES + _SPARE, len(rows))
    basis = np.random.default_rng(0).standard_normal((len(rows), size))
    for _ in range(_ITERATIONS):
        basis = np.linalg.qr(centred @ basis)[0]
    values, vectors = np.linalg.eigh(basis.T @ centred @ basis)
    return basis @ vectors[:, -_FEATURES:] * np.sqrt(values[-_FEATURES:].clip(0))


def rotate(measure: Measure, directions: Directions | None) -> Measure:
    """The measure in coordinates along the directions, as it was given where there are none."""
    if directions is None:
        return measure.law
    rotation = rotation_to(directions.vectors)
    return Rotated(measure.law, rotation, as_jax(directions.shares))
