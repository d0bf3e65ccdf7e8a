"""Integrals over one coordinate of any family of measures, to nearly full double precision.

Composite Gauss-Legendre. The line is cut in two pieces at the median; on each, points are known by
their distance from an origin (the end of the support where that is finite, so that a singular
density keeps its digits) and panels are mapped logarithmically. Panels end at quantiles of the
measure and at multiples of the kernel's lengthscale, around the origin and around a focus.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from owlfi.checks import concrete, is_traced
from owlfi.kernels import CoordinateKernel, Korobov
from owlfi.measures import Family, FrozenContinuous

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_LEVELS = np.array([0.4, 0.3, 0.2, 0.1, 0.05, 0.02])
_LEVELS = np.append(_LEVELS, 10.0 ** -np.array([2.0, 3, 4, 6, 8, 11, 14, 18, 23, 30]))
_GRADING = 16.0 ** -np.arange(18)  # towards the origin
_PANELS_AT_ONCE = 2**14
_OTHER_PANELS = 32  # about as many as a kernel has
_TOLERABLE = 1e-14  # beyond this quantile, periods need not be told apart
_MOST_HALF_PERIODS, _MOST_IN_A_DOUBLE_INTEGRAL = 4096, 512
_BISECTIONS, _BISECTED_AT_ONCE = 100, 8


class _Piece(NamedTuple):
    """One side of the median; x = origin + sign · distance, distance between start and end."""

    origin: Float[Array, " s"]
    sign: Float[Array, " s"]
    start: Float[Array, " s"]
    end: Float[Array, " s"]
    landmarks: Float[Array, "l s"]  # distances at which panels end


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
    return mean(kernel, measure, _pieces(measure), _panels(kernel, measure, _MOST_HALF_PERIODS), u)


def _mean_by_rows(
    kernel: CoordinateKernel,
    measure: Family,
    pieces: list[_Piece],
    panels: Float[Array, "p #s"],
    u: Float[Array, "m s"],
) -> Float[Array, "m s"]:
    def rows(part: Float[Array, "r s"]) -> Float[Array, "r s"]:
        nodes = _nodes(measure, pieces, panels, part[None])
        moved = part - jax.lax.stop_gradient(part)  # 0, with the derivative that nodes leave out
        return (nodes.weights * kernel.along(nodes.from_focus - moved)).sum(0)

    at_once = max(1, _PANELS_AT_ONCE // (len(panels) + _OTHER_PANELS) // u.shape[1])
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
    return (weights * function(x)).sum(0)


def _without_negligible(x: Array, weights: Array) -> tuple[Array, Array]:
    """The nodes that count: most panels are empty, and each value takes an integral."""
    if is_traced(weights):
        return x, weights
    kept = np.flatnonzero((np.asarray(weights) > 1e-26).any(1))
    kept = np.pad(kept, (0, -len(kept) % 2048), "edge")  # few shapes to compile
    repeated = np.append(False, kept[1:] == kept[:-1])[:, None]
    return x[kept], jnp.where(repeated, 0.0, weights[kept])


def _foci(family: Family) -> Float[Array, "3 s"]:
    """The middle of a family and its ends, where they are finite."""
    with jax.ensure_compile_time_eval():
        family = concrete(family)
        middle = np.atleast_1d(family.frozen().median())
        ends = [np.asarray(end) for end in family.support]
    return jnp.stack([middle, *(np.where(np.isfinite(end), end, middle) for end in ends)])


def _panels(kernel: CoordinateKernel, measure: Family, most: int) -> Float[Array, "p #s"]:
    """The kernel's panels; those of a periodic one go on as far as the measure."""
    panels = kernel.panels()
    leaves = jax.tree.leaves(kernel, is_leaf=lambda leaf: isinstance(leaf, Korobov))
    periods = [concrete(leaf.period) for leaf in leaves if isinstance(leaf, Korobov)]
    if not periods:
        return panels
    with jax.ensure_compile_time_eval():
        half = 0.5 * np.atleast_1d(np.min(np.broadcast_arrays(*periods), axis=0))
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
    panels: Float[Array, "p #s"],
    foci: Float[Array, "f r s"],
) -> _Nodes:
    """r rules, each with panels around its f foci."""
    offsets = jnp.concatenate([-panels, jnp.zeros_like(panels[:1]), panels])
    geometry = jax.lax.stop_gradient((foci, offsets, panels[-1]))
    parts = [_piece_nodes(measure, piece, *geometry) for piece in pieces]
    return _Nodes(*(jnp.concatenate(arrays) for arrays in zip(*parts, strict=True)))


_compiled_nodes = eqx.filter_jit(_nodes)


def _piece_nodes(
    measure: Family, piece: _Piece, foci: Array, offsets: Array, scale: Array
) -> tuple[Array, Array, Array]:
    """Cuts and nodes are known twice: by distance from the origin and by offset from a focus.

    Each is exact where it is small; with one alone, digits are lost far from the other.
    """
    rows = foci.shape[1:]
    first, *others = piece.sign * (foci - piece.origin)  # distances from the origin
    near = jnp.broadcast_to(offsets[:, None], (len(offsets), *rows))
    ends = jnp.stack([piece.start, piece.end])
    cuts = jnp.concatenate(
        [
            *(focus + near for focus in others),
            *(
                jnp.broadcast_to(part[:, None], (len(part), *rows))
                for part in (piece.landmarks, _GRADING[:, None] * scale, ends)
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
    return piece.origin + piece.sign * distance, piece.sign * offset, weights * density


def _log_density(measure: Family, piece: _Piece, distance: Array) -> Array:
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
    """With panels that resolve a density of which nothing is known."""
    with jax.ensure_compile_time_eval():  # the numbers are the measure's, whatever is traced
        return [p._replace(landmarks=jnp.asarray(_resolved(measure, p))) for p in _sides(measure)]


def _resolved(measure: FrozenContinuous, piece: _Piece) -> np.ndarray:
    """Landmarks and midpoints of panels, halved as long as that changes their probability.

    Kinks and jumps of the density are cornered by panels of falling size.
    """
    masses = partial(_masses, measure, float(piece.origin[0]), float(piece.sign[0]))
    landmarks, start, end = (np.asarray(x) for x in (piece.landmarks, piece.start, piece.end))
    edges = np.unique(np.append(landmarks, end).clip(start, end))
    edges = edges[edges > 0]
    low, high = edges[:-1], edges[1:]
    found = [landmarks[:, 0]]
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        halves = masses(low, middle) + masses(middle, high)
        error = np.abs(halves - masses(low, high))
        rough = np.flatnonzero((error > 1e-13 * halves) & (high - low > 1e-14 * high))
        if not rough.size:
            break
        order = rough[np.argsort(-error[rough])]
        worst, rest = order[:_BISECTED_AT_ONCE], order[_BISECTED_AT_ONCE:]
        found.append(middle[worst])
        low, high = (
            np.concatenate([low[worst], middle[worst], low[rest]]),
            np.concatenate([middle[worst], high[worst], high[rest]]),
        )
    cuts = np.concatenate(found)
    return np.pad(cuts, (0, -len(cuts) % 32), "edge")[:, None]  # few shapes to compile


def _masses(
    measure: FrozenContinuous, origin: float, sign: float, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """The probability between distances from an origin."""
    ratio = np.log1p((high - low) / low)
    distance = low * np.exp(ratio * 0.5 * (_NODES[:, None] + 1))
    x = origin + sign * distance
    first, last = measure.distribution.support()
    ends = (distance if origin == first else x - first, distance if origin == last else last - x)
    density = np.exp(np.asarray(measure.coordinate_log_density(x, *ends)))
    return 0.5 * ratio * (_WEIGHTS @ (distance * density))


def _sides(measure: Family) -> list[_Piece]:
    measure = concrete(measure)
    with jax.ensure_compile_time_eval():
        low, high = (np.asarray(end) for end in measure.support)
        center = np.atleast_1d(measure.frozen().median())
        left, right = measure.tail_distances(_LEVELS[:, None])
    finite_low, finite_high = np.isfinite(low), np.isfinite(high)
    on_half_line = finite_low & ~finite_high  # one origin for both sides
    start = np.where(on_half_line, center - low, 0.0)
    right = right + start
    left_end = np.where(finite_low, center - low, left[-1])
    right_end = np.where(finite_high, high - center, right[-1])
    left_origin, left_sign = np.where(finite_low, low, center), np.where(finite_low, 1.0, -1.0)
    right_origin = np.where(finite_high, high, np.where(on_half_line, low, center))
    right_sign = np.where(finite_high, -1.0, 1.0)
    lower = (left_origin, left_sign, np.zeros_like(low), left_end, left)
    upper = (right_origin, right_sign, start, right_end, right)
    return [_Piece(*map(jnp.asarray, side)) for side in (lower, upper)]


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
