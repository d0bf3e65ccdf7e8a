"""The pieces into which quadrature cuts one coordinate of a measure, and where their panels end.

Two, one on each side of the median; more where a frozen density is infinite inside its support.
Those of a frozen density, of which nothing is known, are refined until their probabilities settle.
"""

from functools import lru_cache, partial
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from owlfi._tools.checks import concrete
from owlfi.measures import Family, FrozenContinuous

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_LEVELS = np.array([0.4, 0.3, 0.2, 0.1, 0.05, 0.02])
_LEVELS = np.append(_LEVELS, 10.0 ** -np.array([2.0, 3, 4, 6, 8, 11, 14, 18, 23, 30]))
_BISECTIONS, _BISECTED_AT_ONCE = 100, 8
_LEAST = 1e-290  # distances below it underflow; their probability sits at the origin
_SLIM = 2.0**-6  # of the support: a median nearer to an end does not part the pieces
_WRONG_MASS = 1e-11  # of a density that is not integrated


class Piece(NamedTuple):
    """One side of the median; x = origin + sign · distance, distance between start and end."""

    origin: Float[Array, " s"]
    sign: Float[Array, " s"]
    start: Float[Array, " s"]
    end: Float[Array, " s"]
    landmarks: Float[Array, "l s"]  # distances at which panels end
    atom: Float[Array, " s"]  # the probability before the start, where it is no distance


def cut_in_pieces(measure: Family) -> list[Piece]:
    """Both sides of the median, from quantiles that scipy computes on the host."""
    frozen = isinstance(measure, FrozenContinuous)
    return _cut_frozen(measure) if frozen else _cut_at_median(measure)


@lru_cache(maxsize=128)
def _cut_frozen(measure: FrozenContinuous) -> list[Piece]:
    """With panels that resolve a density of which nothing is known, or an error."""
    with jax.ensure_compile_time_eval():  # the numbers are the measure's, whatever is traced
        cut = _cut_at_singular_points if measure.singular_points else _cut_at_median
        resolved = [_resolve(measure, side) for side in cut(measure)]
    probability = sum(mass for _, mass, _ in resolved)
    doubt = sum(error for _, _, error in resolved)
    if not (abs(probability - 1) <= _WRONG_MASS and doubt <= _WRONG_MASS):
        raise ValueError(
            f"measure is {measure!r}, whose density owlfi cannot integrate to 12 digits: its "
            f"probabilities sum to {probability:.15g}, with an error of about {doubt:.1e}; use one "
            "of owlfi's own families, a Mixture of them, or Empirical(...) of a large sample"
        )
    return [piece for piece, _, _ in resolved]


def _resolve(measure: FrozenContinuous, piece: Piece) -> tuple[Piece, float, float]:
    """The piece with panels halved as long as that changes their probability; that; its error.

    Kinks and jumps of the density are cornered by panels of falling size.
    """
    masses = partial(_masses, measure, float(piece.origin[0]), float(piece.sign[0]))
    landmarks, start, end = (np.asarray(x) for x in (piece.landmarks, piece.start, piece.end))
    jumps = piece.sign * (measure.jumps - piece.origin)
    landmarks = np.concatenate([landmarks[:, 0], jumps])
    edges = np.unique(np.concatenate([landmarks, start, end]).clip(start, end))
    low, high = edges[:-1], edges[1:]
    found, mass, doubt = [landmarks], float(piece.atom[0]), 0.0
    for _ in range(_BISECTIONS):
        wide = (low > 0) & (high > 4 * low)
        middle = np.where(wide, np.sqrt(low) * np.sqrt(high), 0.5 * (low + high))
        halves = masses(low, middle) + masses(middle, high)
        error = np.abs(halves - masses(low, high))
        rough = (error > 1e-13 * halves) & (high - low > 1e-14 * high)
        rough &= (low > 0) | (error > 1e-16)  # at a singular end the first panel is negligible
        mass, doubt = mass + halves[~rough].sum(), doubt + error[~rough].sum()
        if not rough.any():
            break
        order = np.argsort(-np.where(rough, error, -1.0))[: rough.sum()]
        worst, rest = order[:_BISECTED_AT_ONCE], order[_BISECTED_AT_ONCE:]
        found.append(middle[worst])
        low, high = (
            np.concatenate([low[worst], middle[worst], low[rest]]),
            np.concatenate([middle[worst], high[worst], high[rest]]),
        )
    else:
        mass, doubt = mass + masses(low, high).sum(), doubt + error[rough].sum()
    cuts = np.concatenate(found)
    cuts = np.pad(cuts, (0, -len(cuts) % 32), "edge")[:, None]  # few shapes to compile
    return piece._replace(landmarks=jnp.asarray(cuts)), mass, doubt


def _masses(
    measure: FrozenContinuous, origin: float, sign: float, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """The probability between distances from an origin, by the nodes of _panel_rule."""
    t = 0.5 * (_NODES[:, None] + 1)
    first = low == 0
    ratio = np.log1p((high - low) / np.where(first, 1.0, low))
    distance = np.where(first, high * t, low * np.exp(ratio * t))
    density = np.exp(measure.log_density_beside(origin, sign, distance))
    return 0.5 * (_WEIGHTS @ (np.where(first, high, distance * ratio) * density))


def _cut_at_median(measure: Family) -> list[Piece]:
    measure = concrete(measure)
    with jax.ensure_compile_time_eval():
        low, high = (np.asarray(end) for end in measure.support)
        center = np.atleast_1d(measure.as_scipy().median())
        tails = [*measure.tail_distances(np.insert(_LEVELS, 0, 0.5)[:, None])]
    halves = [distances[0] for distances in tails]  # to the median, which may round to an end
    tails = [distances[1:] for distances in tails]
    bounded = np.isfinite(low) & np.isfinite(high)
    with np.errstate(invalid="ignore"):
        width = np.where(bounded, high - low, 0.0)
    if (bounded & (np.minimum(*halves) < _SLIM * width)).any():
        halves[0] = np.where(bounded, halves[0].clip(_SLIM * width, (1 - _SLIM) * width), halves[0])
        halves[1] = np.where(bounded, width - halves[0], halves[1])
        inner = width * 4.0 ** -np.arange(1, 27)[:, None]
        tails = [np.concatenate([inner, width - inner, distances]) for distances in tails]
    return [
        _make_side(low, high, center, tails[0], halves[0], halves[1], 1.0),
        _make_side(high, low, center, tails[1], halves[1], halves[0], -1.0),
    ]


def _make_side(
    end: np.ndarray,
    other_end: np.ndarray,
    center: np.ndarray,
    tail: np.ndarray,
    half: np.ndarray,
    other_half: np.ndarray,
    inwards: float,
) -> Piece:
    """From an end of the support, where that is finite; else out from the other, or the center."""
    finite = np.isfinite(end)
    outwards = ~finite & np.isfinite(other_end)  # one origin for both sides
    start, atom = _lump(tail[-len(_LEVELS) :], finite)
    before = np.where(outwards, other_half, 0.0)
    side = (
        np.where(finite, end, np.where(outwards, other_end, center)),
        np.where(finite, inwards, -inwards),
        start + before,
        np.where(finite, half, before + tail[-1]),
        before + tail,
        atom,
    )
    return Piece(*map(jnp.asarray, side))


def _cut_at_singular_points(measure: FrozenContinuous) -> list[Piece]:
    """Pieces that begin at the singular points and at the finite ends of a density."""
    low, high = measure.distribution.support()
    median = measure.distribution.median()
    left, right = (distances[:, 0] for distances in measure.tail_distances(_LEVELS[:, None]))
    lower = low + left if np.isfinite(low) else median - left
    upper = high - right if np.isfinite(high) else median + right
    reach = max(low, lower.min()), min(high, upper.max())
    tails = {low: left, high: right}
    points = [point for point in (low, *measure.singular_points, high) if np.isfinite(point)]
    limits = [reach[0], *(0.5 * (a + b) for a, b in pairwise(points)), reach[1]]
    pieces = []
    for point, bounds in zip(points, pairwise(limits), strict=True):
        for sign, length in zip((-1.0, 1.0), np.abs(np.array(bounds) - point), strict=True):
            if length > 0:
                inside = point not in tails
                near = measure.distances_beside(point, sign, _LEVELS) if inside else tails[point]
                start, atom = _lump(near[:, None], np.array([True]))
                far = sign * (np.concatenate([lower, upper]) - point)
                landmarks = np.concatenate([near, far])[:, None]
                side = ([point], [sign], start, [length], landmarks, atom)
                pieces.append(Piece(*map(jnp.asarray, side)))
    return pieces


def _lump(distances: np.ndarray, finite: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where a piece begins and the probability before it, by the power law of its quantiles."""
    count = (distances > _LEAST).sum(0)
    last = np.maximum(count - 1, 1)
    column = np.arange(distances.shape[1])
    with np.errstate(all="ignore"):
        narrow, wide = distances[last, column], distances[last - 1, column]
        power = np.log(_LEVELS[last - 1] / _LEVELS[last]) / np.log(wide / narrow)
        atom = _LEVELS[last] * (_LEAST / narrow) ** power
    lumped = finite & (distances[-1] < _LEAST)
    atom = np.where(count > 1, atom, np.nan)  # then most of the probability is at the origin
    return np.where(lumped, _LEAST, 0.0), np.where(lumped, atom, 0.0)
