"""Integrals over one coordinate of any family of measures, to nearly full double precision.

Composite Gauss-Legendre. The line is cut in two pieces at the median, in more where a frozen
density is infinite inside; on each, points are known by their distance from an origin (an end of
the support or a singular point, so that the density keeps its digits there) and panels are mapped
logarithmically. Panels end at quantiles of the measure and at multiples of the kernel's
lengthscale, around the origin and around a focus.
"""

from collections.abc import Callable
from math import ceil, log
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from owlfi._tools.checks import concrete, is_traced
from owlfi._tools.ranks import lift
from owlfi.embeddings.panels import Piece, cut_in_pieces
from owlfi.kernels import CoordinateKernel, InverseMultiquadric, Korobov, RationalQuadratic
from owlfi.measures import Family, FrozenContinuous

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_GRADING = 16.0 ** -np.arange(18)  # towards the origin
_PANELS_AT_ONCE = 2**14
_OTHER_PANELS = 32  # about as many as a kernel has
_TOLERABLE = 1e-14  # beyond this quantile, periods need not be told apart
_MOST_HALF_PERIODS, _MOST_IN_A_DOUBLE_INTEGRAL = 4096, 512
_SLOW = InverseMultiquadric, RationalQuadratic  # fall as a power of the distance
_OWN_REACH = 1e10  # interquartile ranges that their panels span at short lengthscales
_FOCUS_RATIO, _ORIGIN_RATIO = 5.0, 256.0  # of the ends of panels beyond
_SHARES = np.array([0.125, 0.25, 0.5, 0.75, 1.25, 1.5, 2.0, 4.0, 8.0])


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
    mean = _compiled_mean_by_rows if measure.traceable_density else _mean_by_rows
    panels = _place_panels(kernel, measure, _MOST_HALF_PERIODS)
    foci = jnp.stack([u, *_move_inside(kernel, measure, u)], 1)
    return _check_finite(measure, mean(kernel, measure, cut_in_pieces(measure), panels, foci))


def _move_inside(
    kernel: CoordinateKernel, measure: Family, u: Float[Array, "m s"]
) -> list[Float[Array, "m s"]]:
    """Points outside the support of a mixture's component, moved to it by whole periods."""
    low, high = (end[None] for end in measure.support)
    periods = _periods(kernel)
    if not periods or (not is_traced(u) and bool(((u >= low) & (u <= high)).all())):
        return []
    middle = np.atleast_2d(concrete(measure).as_scipy().median())
    return [u - jnp.round((u - middle) / period) * period for period in periods]


def _check_finite(measure: Family, values: Array) -> Array:
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
    pieces: list[Piece],
    panels: _Panels,
    foci: Float[Array, "m f s"],
) -> Float[Array, "m s"]:
    """At the first focus of each row."""

    def integrate_rows(part: Float[Array, "r f s"]) -> Float[Array, "r s"]:
        nodes = _place_nodes(measure, pieces, panels, part.swapaxes(0, 1))
        u = part[:, 0]
        moved = u - jax.lax.stop_gradient(u)  # 0, with the derivative that nodes leave out
        return (nodes.weights * kernel.along(nodes.from_focus - moved[None])).sum(0)

    width = (len(panels.around_focus) + _OTHER_PANELS) * foci[0].size
    at_once = max(1, _PANELS_AT_ONCE // width)
    return _apply_by_rows(integrate_rows, foci, at_once, traced=measure.traceable_density)


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
    pieces = cut_in_pieces(measure)
    if other is not measure:
        cuts = jnp.concatenate([_place(p, p.landmarks) for p in cut_in_pieces(other)])
        pieces = [
            p._replace(landmarks=jnp.concatenate([p.landmarks, _distances(p, cuts)]))
            for p in pieces
        ]
    place = _place_nodes_compiled if measure.traceable_density else _place_nodes
    panels = _place_panels(kernel, measure, _MOST_IN_A_DOUBLE_INTEGRAL)
    nodes = place(measure, pieces, panels, _foci(other)[:, None])
    x, weights = _drop_negligible(nodes.x[:, 0], nodes.weights[:, 0])
    return _check_finite(measure, (weights * function(x)).sum(0))


def _drop_negligible(x: Array, weights: Array) -> tuple[Array, Array]:
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
        middle = np.atleast_1d(family.as_scipy().median())
        ends = [np.asarray(end) for end in family.support]
    inner = (*family.singular_points, *family.jumps) if isinstance(family, FrozenContinuous) else ()
    return jnp.stack(
        [
            middle,
            *(np.where(np.isfinite(end), end, middle) for end in ends),
            *(np.array([point]) for point in inner),
        ]
    )


def _place_panels(kernel: CoordinateKernel, measure: Family, most: int) -> _Panels:
    """The kernel's panels; those of a periodic or a slowly falling one go on with the measure."""
    panels = kernel.panels()
    periods, slow = _periods(kernel), bool(_leaves(kernel, _SLOW))
    around_focus, shares = panels, np.zeros(0)
    around_origin = jnp.asarray(_GRADING)[:, None] * panels[-1:]
    if periods:
        around_focus = _add_half_periods(panels, periods, measure, most)
        around_origin = jnp.asarray(_GRADING)[:, None] * around_focus[-1:]
    reach = _reach_of_a_heavy_tail(measure) if slow else 1.0
    if reach > 1:
        far = panels[-1:] * _geometric(_FOCUS_RATIO, reach)
        far = jnp.broadcast_to(far, (len(far), around_focus.shape[1]))
        around_focus = jnp.concatenate([around_focus, far])
        beyond = panels[-1:] * _geometric(_ORIGIN_RATIO, reach)
        around_origin = jnp.concatenate([around_origin, beyond])
        shares = _SHARES
    return _Panels(around_focus, around_origin, jnp.asarray(shares))


def _periods(kernel: CoordinateKernel) -> list[Float[Array, "1 #s"]]:
    return [jnp.atleast_2d(leaf.period) for leaf in _leaves(kernel, Korobov)]


def _leaves(kernel: CoordinateKernel, kinds: Any) -> list[Any]:
    """The kernels of some kinds among those that a kernel is made of."""
    leaves = jax.tree.leaves(kernel, is_leaf=lambda leaf: isinstance(leaf, kinds))
    return [leaf for leaf in leaves if isinstance(leaf, kinds)]


def _geometric(ratio: float, last: float) -> np.ndarray:
    return ratio ** np.arange(1.0, ceil(log(last) / log(ratio)) + 1)[:, None]


def _reach_of_a_heavy_tail(measure: Family) -> float:
    """How many times farther than its panels a kernel that falls as a power has likely points."""
    levels = np.array([[_TOLERABLE], [0.25]])
    (least, low), (most, high) = concrete(measure).quantiles(levels)
    return float(((most - least) / (_OWN_REACH * (high - low))).max())


def _add_half_periods(
    panels: Float[Array, "p #s"], periods: list[Float[Array, "1 #s"]], measure: Family, most: int
) -> Float[Array, "q #s"]:
    with jax.ensure_compile_time_eval():
        half = 0.5 * np.min(np.broadcast_arrays(*map(concrete, periods)), axis=0)
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


def _place_nodes(
    measure: Family, pieces: list[Piece], panels: _Panels, foci: Float[Array, "f r s"]
) -> _Nodes:
    """r rules, each with panels around its f foci."""
    geometry = jax.lax.stop_gradient((foci, panels))
    parts = [_place_on_piece(measure, piece, *geometry) for piece in pieces]
    return _Nodes(*(jnp.concatenate(arrays) for arrays in zip(*parts, strict=True)))


_place_nodes_compiled = eqx.filter_jit(_place_nodes)


def _place(piece: Piece, distance: Float[Array, "... s"]) -> Float[Array, "... s"]:
    origin, sign = (lift(part, distance.ndim) for part in (piece.origin, piece.sign))
    return origin + sign * distance


def _distances(piece: Piece, x: Float[Array, "... s"]) -> Float[Array, "... s"]:
    origin, sign = (lift(part, x.ndim) for part in (piece.origin, piece.sign))
    return sign * (x - origin)


def _place_on_piece(
    measure: Family, piece: Piece, foci: Float[Array, "f r s"], panels: _Panels
) -> tuple[Float[Array, "q r s"], Float[Array, "q r s"], Float[Array, "q r s"]]:
    """Cuts and nodes are known twice: by distance from the origin and by offset from a focus.

    Each is exact where it is small; with one alone, digits are lost far from the other.
    """
    rows = foci.shape[1:]
    start, end = piece.start[None, None], piece.end[None, None]
    first, *others = _distances(piece, foci)[:, None]  # from the origin
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
    distances = distances.clip(start, end)
    from_focus = from_focus.clip(start - first, end - first)
    distances, from_focus = jax.lax.sort((distances, from_focus), dimension=0, num_keys=2)
    distance, offset, weights = _panel_rule(distances, from_focus, end, first)
    density = jnp.exp(_log_density(measure, piece, distance))
    rest = jnp.zeros_like(first), -first, jnp.broadcast_to(piece.atom, first.shape)
    parts = zip((distance, offset, weights * density), rest, strict=True)
    distance, offset, weights = (jnp.concatenate([part, last]) for part, last in parts)
    return _place(piece, distance), piece.sign[None, None] * offset, weights


def _log_density(measure: Family, piece: Piece, distance: Array) -> Array:
    if isinstance(measure, FrozenContinuous):
        origin, sign = (float(np.asarray(part)[0]) for part in (piece.origin, piece.sign))
        return jnp.asarray(measure.log_density_beside(origin, sign, distance))
    x = _place(piece, distance)
    start, low, high = (part[None, None] for part in (piece.origin, *measure.support))
    from_low = jnp.where(start == low, distance, x - low)
    to_high = jnp.where(start == high, distance, high - x)
    return measure.coordinate_log_density(x, from_low, to_high)


def _panel_rule(
    distances: Float[Array, "c r s"],
    from_focus: Float[Array, "c r s"],
    interior: Float[Array, "1 1 s"],
    of_focus: Float[Array, "1 r s"],
) -> tuple[Float[Array, "q r s"], Float[Array, "q r s"], Float[Array, "q r s"]]:
    """Gauss-Legendre between neighbouring cuts, in log distance unless a panel begins at 0."""
    low, high = distances[None, :-1], distances[None, 1:]  # an axis of nodes first
    offset, next_offset = from_focus[None, :-1], from_focus[None, 1:]
    focus_is_near = jnp.maximum(jnp.abs(next_offset), jnp.abs(offset)) < high
    width = jnp.where(focus_is_near, next_offset - offset, high - low)
    linear, empty = low == 0, width <= 0
    t, half = 0.5 * (_NODES + 1)[:, None, None, None], 0.5 * _WEIGHTS[:, None, None, None]
    ratio = jnp.log1p(width / jnp.where(linear, 1.0, low))
    step = jnp.where(linear, width * t, low * jnp.expm1(ratio * t))
    weights = half * jnp.where(linear, width, (low + step) * ratio)
    flat = (-1, *low.shape[2:])
    # Nodes of empty panels stay away from a singular end.
    distance = jnp.where(empty, interior[None], low + step).reshape(flat)
    offset = jnp.where(empty, (interior - of_focus)[None], offset + step).reshape(flat)
    return distance, offset, jnp.where(empty, 0.0, weights).reshape(flat)


def _apply_by_rows(
    function: Callable[[Array], Array], foci: Float[Array, "m f s"], at_once: int, *, traced: bool
) -> Float[Array, "m s"]:
    """Apply to a few rows at a time: hundreds of nodes a row would fill the memory."""
    m, *shape = foci.shape
    count = -(-m // at_once)
    size = -(-m // count)
    padded = jnp.concatenate([foci, jnp.broadcast_to(foci[:1], (count * size - m, *shape))])
    blocks = padded.reshape(count, size, *shape)
    results = jax.lax.map(function, blocks) if traced else jnp.stack([function(b) for b in blocks])
    return results.reshape(count * size, -1)[:m]
