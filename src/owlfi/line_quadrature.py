"""Integrals over one coordinate of any family of measures, to nearly full double precision.

Composite Gauss-Legendre. The line is cut in two pieces at the median, in more where a frozen
density is infinite inside; on each, points are known by their distance from an origin (an end of
the support or a singular point, so that the density keeps its digits there) and panels are mapped
logarithmically. Panels end at quantiles of the
measure and at multiples of the kernel's lengthscale, around the origin and around a focus.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from itertools import pairwise
from math import ceil, log
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from owlfi.checks import concrete, is_traced
from owlfi.kernels import CoordinateKernel, InverseMultiquadric, Korobov, RationalQuadratic
from owlfi.measures import Family, FrozenContinuous

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_LEVELS = np.array([0.4, 0.3, 0.2, 0.1, 0.05, 0.02])
_LEVELS = np.append(_LEVELS, 10.0 ** -np.array([2.0, 3, 4, 6, 8, 11, 14, 18, 23, 30]))
_GRADING = 16.0 ** -np.arange(18)  # towards the origin
_PANELS_AT_ONCE = 2**14
_OTHER_PANELS = 32  # about as many as a kernel has
_TOLERABLE = 1e-14  # beyond this quantile, periods need not be told apart
_MOST_HALF_PERIODS, _MOST_IN_A_DOUBLE_INTEGRAL = 4096, 512
_SLOW = InverseMultiquadric, RationalQuadratic  # fall as a power of the distance
_OWN_REACH = 1e10  # interquartile ranges that their panels span at short lengthscales
_FOCUS_RATIO, _ORIGIN_RATIO = 5.0, 256.0  # of the ends of panels beyond
_SHARES = np.array([0.125, 0.25, 0.5, 0.75, 1.25, 1.5, 2.0, 4.0, 8.0])
_BISECTIONS, _BISECTED_AT_ONCE = 100, 8
_LEAST = 1e-290  # distances below it underflow; their probability sits at the origin
_SLIM = 2.0**-6  # of the support: a median nearer to an end does not part the pieces
_WRONG_MASS = 1e-11  # of a density that is not integrated


class _Piece(NamedTuple):
    """One side of the median; x = origin + sign · distance, distance between start and end."""

    origin: Float[Array, " s"]
    sign: Float[Array, " s"]
    start: Float[Array, " s"]
    end: Float[Array, " s"]
    landmarks: Float[Array, "l s"]  # distances at which panels end
    atom: Float[Array, " s"]  # the probability before the start, where it is no distance


class _Panels(NamedTuple):
    """Where panels end on account of the kernel."""

    around_focus: Float[Array, "p #s"]  # offsets, both ways
    around_origin: Float[Array, "q #s"]  # distances
    shares: Float[Array, " k"]  # distances from the origin, in that of the focus


class _Nodes(NamedTuple):
    """A quadrature rule for each coordinate of a measure: Σ weights f(x) ≈ ∫ f dU."""

    x: Float[Array, "q r s"]
    from_focus: Float[Array, "q r s"]  # x minus the first focus, without the rounding of x
    weights: Float[Array, "q r s"]


def coordinate_mean(
    kernel: CoordinateKernel, measure: Family, u: Float[Array, "m s"]
) -> Float[Array, "m s"]:
    """∫ c_j(u_j, v) U_j(dv) for each coordinate j."""
    on_host = isinstance(measure, FrozenContinuous)
    mean = _mean_by_rows if on_host else _compiled_mean_by_rows
    panels = _panels(kernel, measure, _MOST_HALF_PERIODS)
    return _finite(measure, mean(kernel, measure, _pieces(measure), panels, u))


def _finite(measure: Family, values: Array) -> Array:
    """The values, unless something went wrong of which no part knows."""
    if not is_traced(values) and not np.isfinite(np.asarray(values)).all():
        raise ValueError(
            f"the embedding of {type(measure).__name__} by this kernel is not finite; use less "
            "extreme parameters, or Empirical(...) of a large sample"
        )
    return values


def _mean_by_rows(
    kernel: CoordinateKernel,
    measure: Family,
    pieces: list[_Piece],
    panels: _Panels,
    u: Float[Array, "m s"],
) -> Float[Array, "m s"]:
    def rows(part: Float[Array, "r s"]) -> Float[Array, "r s"]:
        nodes = _nodes(measure, pieces, panels, part[None])
        moved = part - jax.lax.stop_gradient(part)  # 0, with the derivative that nodes leave out
        return (nodes.weights * kernel.along(nodes.from_focus - moved)).sum(0)

    width = (len(panels.around_focus) + _OTHER_PANELS) * u.shape[1]
    at_once = max(1, _PANELS_AT_ONCE // width)
    return _by_rows(rows, u, at_once, on_host=isinstance(measure, FrozenContinuous))


_compiled_mean_by_rows = eqx.filter_jit(_mean_by_rows)


def integrate(
    kernel: CoordinateKernel,
    measure: Family,
    function: Callable[[Float[Array, "q s"]], Float[Array, "q s"]],
    other: Family,
) -> Float[Array, " s"]:
    """∫ f_j(v) U_j(dv) for each coordinate, where f is the mean embedding of the other family.

    It bends on the kernel's scale at that one's ends and middle, elsewhere as its density does.
    """
    pieces = _pieces(measure)
    if other is not measure:
        cuts = jnp.concatenate([p.origin + p.sign * p.landmarks for p in _pieces(other)])
        pieces = [
            p._replace(landmarks=jnp.concatenate([p.landmarks, p.sign * (cuts - p.origin)]))
            for p in pieces
        ]
    make = _nodes if isinstance(measure, FrozenContinuous) else _compiled_nodes
    panels = _panels(kernel, measure, _MOST_IN_A_DOUBLE_INTEGRAL)
    nodes = make(measure, pieces, panels, _foci(other)[:, None])
    x, weights = _without_negligible(nodes.x[:, 0], nodes.weights[:, 0])
    return _finite(measure, (weights * function(x)).sum(0))


def _without_negligible(x: Array, weights: Array) -> tuple[Array, Array]:
    """The nodes that count: most panels are empty, and each value takes an integral."""
    if is_traced(weights):
        return x, weights
    kept = np.flatnonzero((np.asarray(weights) > 1e-26).any(1))
    kept = np.pad(kept, (0, -len(kept) % 2048), "edge")  # few shapes to compile
    repeated = np.append(False, kept[1:] == kept[:-1])[:, None]
    return x[kept], jnp.where(repeated, 0.0, weights[kept])


def _foci(family: Family) -> Float[Array, "f s"]:
    """The middle of a family, its ends where they are finite, and where its density breaks."""
    with jax.ensure_compile_time_eval():
        family = concrete(family)
        middle = np.atleast_1d(family.frozen().median())
        ends = [np.asarray(end) for end in family.support]
    inner = (*family.singular_points, *family.jumps) if isinstance(family, FrozenContinuous) else ()
    return jnp.stack(
        [
            middle,
            *(np.where(np.isfinite(end), end, middle) for end in ends),
            *(np.array([point]) for point in inner),
        ]
    )


def _panels(kernel: CoordinateKernel, measure: Family, most: int) -> _Panels:
    """The kernel's panels; those of a periodic or a slowly falling one go on with the measure."""
    panels = kernel.panels()
    leaves = jax.tree.leaves(kernel, is_leaf=lambda leaf: isinstance(leaf, (Korobov, *_SLOW)))
    periods = [leaf.period for leaf in leaves if isinstance(leaf, Korobov)]
    around_focus, shares = panels, np.zeros(0)
    around_origin = jnp.asarray(_GRADING)[:, None] * panels[-1]
    if periods:
        around_focus = _with_half_periods(panels, periods, measure, most)
        around_origin = jnp.asarray(_GRADING)[:, None] * around_focus[-1]
    slow = any(isinstance(leaf, _SLOW) for leaf in leaves)
    reach = _reach_of_a_heavy_tail(measure) if slow else 1.0
    if reach > 1:
        far = panels[-1] * _geometric(_FOCUS_RATIO, reach)
        around_focus = jnp.concatenate([panels, far])
        beyond = panels[-1] * _geometric(_ORIGIN_RATIO, reach)
        around_origin = jnp.concatenate([around_origin, beyond])
        shares = _SHARES
    return _Panels(around_focus, around_origin, jnp.asarray(shares))


def _geometric(ratio: float, last: float) -> np.ndarray:
    return ratio ** np.arange(1.0, ceil(log(last) / log(ratio)) + 1)[:, None]


def _reach_of_a_heavy_tail(measure: Family) -> float:
    """How many times farther than its panels a kernel that falls as a power has likely points."""
    levels = np.array([[_TOLERABLE], [0.25]])
    (least, low), (most, high) = concrete(measure).quantiles(levels)
    return float(((most - least) / (_OWN_REACH * (high - low))).max())


def _with_half_periods(
    panels: Float[Array, "p #s"], periods: list[Array], measure: Family, most: int
) -> Float[Array, "q #s"]:
    with jax.ensure_compile_time_eval():
        half = 0.5 * np.atleast_1d(np.min(np.broadcast_arrays(*map(concrete, periods)), axis=0))
    lower, upper = concrete(measure).quantiles(np.array([[_TOLERABLE]]))
    count = np.ceil((upper - lower) / half).max()
    if count > most:
        raise ValueError(
            f"the period {2 * half.min():.3g} of the Korobov kernel is too short for "
            f"{type(measure).__name__}, which spreads over {0.5 * count:.3g} of them; use a period "
            f"of at least {(upper - lower).max() / most * 2:.3g}, or a Uniform measure"
        )
    multiples = jnp.arange(1.0, count + 1)[:, None] * half
    if multiples.shape[0] <= panels.shape[0]:
        return panels
    width = max(multiples.shape[1], panels.shape[1])
    both = (jnp.broadcast_to(part, (len(part), width)) for part in (panels, multiples))
    return jnp.concatenate([*both])


def _nodes(
    measure: Family,
    pieces: list[_Piece],
    panels: _Panels,
    foci: Float[Array, "f r s"],
) -> _Nodes:
    """r rules, each with panels around its f foci."""
    geometry = jax.lax.stop_gradient((foci, panels))
    parts = [_piece_nodes(measure, piece, *geometry) for piece in pieces]
    return _Nodes(*(jnp.concatenate(arrays) for arrays in zip(*parts, strict=True)))


_compiled_nodes = eqx.filter_jit(_nodes)


def _piece_nodes(
    measure: Family, piece: _Piece, foci: Array, panels: _Panels
) -> tuple[Array, Array, Array]:
    """Cuts and nodes are known twice: by distance from the origin and by offset from a focus.

    Each is exact where it is small; with one alone, digits are lost far from the other.
    """
    rows = foci.shape[1:]
    first, *others = piece.sign * (foci - piece.origin)  # distances from the origin
    offsets = panels.around_focus
    offsets = jnp.concatenate([-offsets, jnp.zeros_like(offsets[:1]), offsets])
    near = jnp.broadcast_to(offsets[:, None], (len(offsets), *rows))
    ends = jnp.stack([piece.start, piece.end])
    cuts = jnp.concatenate(
        [
            *(focus + near for focus in others),
            first * panels.shares[:, None, None],
            *(
                jnp.broadcast_to(part[:, None], (len(part), *rows))
                for part in (piece.landmarks, panels.around_origin, ends)
            ),
        ]
    )
    distances = jnp.concatenate([first + near, cuts])
    from_focus = jnp.concatenate([near, cuts - first])
    distances = distances.clip(piece.start, piece.end)
    from_focus = from_focus.clip(piece.start - first, piece.end - first)
    distances, from_focus = jax.lax.sort((distances, from_focus), dimension=0, num_keys=2)
    distance, offset, weights = _panel_rule(distances, from_focus, piece.end, first)
    density = jnp.exp(_log_density(measure, piece, distance))
    rest = jnp.zeros_like(first), -first, jnp.broadcast_to(piece.atom, rows)
    parts = zip((distance, offset, weights * density), rest, strict=True)
    distance, offset, weights = (jnp.concatenate([part, last[None]]) for part, last in parts)
    return piece.origin + piece.sign * distance, piece.sign * offset, weights


def _log_density(measure: Family, piece: _Piece, distance: Array) -> Array:
    if isinstance(measure, FrozenContinuous):
        origin, sign = (float(np.asarray(part)[0]) for part in (piece.origin, piece.sign))
        return jnp.asarray(measure.log_density_beside(origin, sign, distance))
    x = piece.origin + piece.sign * distance
    low, high = measure.support
    from_low = jnp.where(piece.origin == low, distance, x - low)
    to_high = jnp.where(piece.origin == high, distance, high - x)
    return measure.coordinate_log_density(x, from_low, to_high)


def _panel_rule(
    distances: Array, from_focus: Array, interior: Array, of_focus: Array
) -> tuple[Array, Array, Array]:
    """Gauss-Legendre between neighbouring cuts, in log distance unless a panel begins at 0."""
    low, offset = distances[:-1], from_focus[:-1]
    focus_is_near = jnp.maximum(jnp.abs(from_focus[1:]), jnp.abs(offset)) < distances[1:]
    width = jnp.where(focus_is_near, from_focus[1:] - offset, distances[1:] - low)
    linear, empty = low == 0, width <= 0
    t = (0.5 * (_NODES + 1)).reshape(-1, *(1,) * low.ndim)
    half = (0.5 * _WEIGHTS).reshape(t.shape)
    ratio = jnp.log1p(width / jnp.where(linear, 1.0, low))
    step = jnp.where(linear, width * t, low * jnp.expm1(ratio * t))
    weights = half * jnp.where(linear, width, (low + step) * ratio)
    flat = (-1, *low.shape[1:])
    distance = jnp.where(empty, interior, low + step).reshape(flat)  # away from a singular end
    offset = jnp.where(empty, interior - of_focus, offset + step).reshape(flat)
    return distance, offset, jnp.where(empty, 0.0, weights).reshape(flat)


def _pieces(measure: Family) -> list[_Piece]:
    """Both sides of the median, from quantiles that scipy computes on the host."""
    return _frozen_pieces(measure) if isinstance(measure, FrozenContinuous) else _sides(measure)


@lru_cache(maxsize=128)
def _frozen_pieces(measure: FrozenContinuous) -> list[_Piece]:
    """With panels that resolve a density of which nothing is known, or an error."""
    with jax.ensure_compile_time_eval():  # the numbers are the measure's, whatever is traced
        sides = _around(measure) if measure.singular_points else _sides(measure)
        resolved = [_resolved(measure, side) for side in sides]
    probability = sum(mass for _, mass, _ in resolved)
    doubt = sum(error for _, _, error in resolved)
    if not (abs(probability - 1) <= _WRONG_MASS and doubt <= _WRONG_MASS):
        raise ValueError(
            f"measure is {measure.label}, whose density owlfi cannot integrate to 12 digits: its "
            f"probabilities sum to {probability:.15g}, with an error of about {doubt:.1e}; use one "
            "of owlfi's own families, a Mixture of them, or Empirical(...) of a large sample"
        )
    return [piece for piece, _, _ in resolved]


def _resolved(measure: FrozenContinuous, piece: _Piece) -> tuple[_Piece, float, float]:
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


def _sides(measure: Family) -> list[_Piece]:
    measure = concrete(measure)
    with jax.ensure_compile_time_eval():
        low, high = (np.asarray(end) for end in measure.support)
        center = np.atleast_1d(measure.frozen().median())
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
        _side(low, high, center, tails[0], halves[0], halves[1], 1.0),
        _side(high, low, center, tails[1], halves[1], halves[0], -1.0),
    ]


def _side(
    end: np.ndarray,
    other_end: np.ndarray,
    center: np.ndarray,
    tail: np.ndarray,
    half: np.ndarray,
    other_half: np.ndarray,
    inwards: float,
) -> _Piece:
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
    return _Piece(*map(jnp.asarray, side))


def _around(measure: FrozenContinuous) -> list[_Piece]:
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
                pieces.append(_Piece(*map(jnp.asarray, side)))
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


def _by_rows(
    function: Callable[[Array], Array], u: Float[Array, "m s"], at_once: int, *, on_host: bool
) -> Float[Array, "m s"]:
    """Apply to a few rows at a time: hundreds of nodes a row would fill the memory."""
    count = -(-u.shape[0] // at_once)
    size = -(-u.shape[0] // count)
    padded = jnp.concatenate([u, jnp.broadcast_to(u[:1], (count * size - u.shape[0], u.shape[1]))])
    blocks = padded.reshape(count, size, u.shape[1])
    results = jnp.stack([function(b) for b in blocks]) if on_host else jax.lax.map(function, blocks)
    return results.reshape(padded.shape)[: u.shape[0]]
