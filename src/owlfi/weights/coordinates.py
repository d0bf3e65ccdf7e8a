"""Systems of coordinates for the noise: a kernel that is blind in one may see in another.

By change of variable, weights for g(u) under its law are weights for u. What a system leaves out
matters linearly to its kernel, or is noise and goes into the nugget.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float, Int

from owlfi._tools.arrays import as_jax
from owlfi.measures import Measure, Normal, Product, Rotated, Uniform, parts_of
from owlfi.measures.scores import has_scores, to_scores
from owlfi.weights.directions import MOST_GIVEN

_NORMAL_IQR = 1.349
_RANKS = (5, 12)  # how many directions a kernel sees where there are more coordinates
_WIDEST = 30.0  # times the width of the direction that matters most


class System(NamedTuple):
    """Points of some designs as a kernel sees them."""

    law: Measure
    points: Float[Array, "... m q"]
    widths: Float[np.ndarray, " q"]
    """Natural lengthscales."""
    outermost: Float[np.ndarray, "... m"]
    """Weights of the points that stand for the unseen tails, summing to one or zero."""
    rest: Float[np.ndarray, "... m n"] | None = None
    """Standard normal scores that a kernel does not look along, but that may matter linearly."""

    def products(self, number: int) -> Float[np.ndarray, "m m"]:
        """Of what lies beyond in one of the designs, 1 on average on the diagonal; or 0."""
        m = self.points.shape[-2]
        if self.rest is None:
            return np.zeros((m, m))
        return self.rest[number] @ self.rest[number].T / self.rest.shape[-1]


def coordinate_systems(measure: Measure, u: Float[Array, "... m s"]) -> list[System]:
    """The noise as given; where some of it is neither normal nor uniform, its normal scores; and
    those of noise with learned coordinates along their leading directions.

    >>> import jax.numpy as jnp
    >>> from owlfi.measures import Exponential
    >>> [type(one.law).__name__ for one in coordinate_systems(Exponential(1.0), jnp.ones((4, 1)))]
    ['Exponential', 'Normal']
    """
    given = measure.law
    if not isinstance(measure, Rotated):
        return _given_systems(given, u)
    if measure.dim <= MOST_GIVEN:
        return [*_given_systems(given, u), _look_along(measure, u, measure.rank)]
    ranks = sorted({min(rank, measure.rank) for rank in _RANKS})
    return [_look_along(measure, u, rank) for rank in ranks]


def count_seen(measure: Measure) -> int:
    """How many coordinates a kernel sees at most, of those that can be learned."""
    if isinstance(measure, Rotated) and measure.dim > MOST_GIVEN:
        return min(measure.rank, _RANKS[-1])
    return measure.dim


def _given_systems(measure: Measure, u: Float[Array, "... m s"]) -> list[System]:
    ends = outermost_points(measure, u)
    systems = [System(measure, u, _widen(natural_scales(measure, u)), ends)]
    parts = parts_of(measure)
    if any(map(_is_curved, parts)):
        columns = np.split(np.asarray(u), np.cumsum([part.dim for part in parts])[:-1], axis=-1)
        scored = [_score(part, own) for part, own in zip(parts, columns, strict=True)]
        law, points = _join(scored)
        systems.append(System(law, points, _widen(natural_scales(law, points)), ends))
    return systems


def _look_along(measure: Rotated, u: Float[Array, "... m s"], directions: int) -> System:
    """Along each direction the natural lengthscale is inverse to how much k sees there."""
    law, points, rest = measure.along(u, directions)
    widths = natural_scales(law, points)
    shares = np.asarray(measure.shares)[:directions] / float(measure.shares[0])
    widths[:directions] = np.minimum(shares**-0.5, _WIDEST)
    widths *= shares.sum() ** 0.5
    matters = measure.dim > MOST_GIVEN and rest.shape[-1] > 0
    return System(law, points, widths, outermost_points(law, points), rest if matters else None)


def _join(scored: list[tuple[Measure, np.ndarray]]) -> tuple[Measure, Array]:
    laws, points = zip(*scored, strict=True)
    return laws[0] if len(laws) == 1 else Product(*laws), as_jax(np.concatenate(points, -1))


def _is_curved(part: Measure) -> bool:
    return has_scores(part) and not isinstance(part, (Normal, Uniform))


def _score(part: Measure, u: np.ndarray) -> tuple[Measure, np.ndarray]:
    return (Normal(dim=part.dim), to_scores(part, u)) if _is_curved(part) else (part, u)


def _widen(scales: np.ndarray) -> np.ndarray:
    """Distances grow with the square root of the dimension."""
    return scales * len(scales) ** 0.5


def natural_scales(measure: Measure, points: Float[Array, "... m s"]) -> np.ndarray:
    """The natural width of each coordinate, as a standard deviation."""
    quartiles = np.repeat([[0.25], [0.75]], measure.dim, axis=1)
    low, high = np.asarray(measure.from_uniform(quartiles))
    rows = np.asarray(points).reshape(-1, measure.dim)
    spread = rows.std(0)  # where all quartiles of a discrete measure agree
    scales = np.where(high > low, (high - low) / _NORMAL_IQR, spread)
    return np.where(scales > 0, scales, 1.0)


def outermost_points(measure: Measure, points: Float[Array, "... m s"]) -> np.ndarray:
    """Weights (..., m) on the last point of each coordinate towards each end that is infinite."""
    shape = points.shape
    u, (low, high) = np.asarray(points).reshape(-1, *shape[-2:]), map(np.asarray, measure.support)
    ends = np.concatenate([u.argmin(1), u.argmax(1)], -1)
    counts = np.zeros(u.shape[:2])
    open_ends = np.concatenate([np.isinf(low), np.isinf(high)]).astype(float)
    np.add.at(counts, (np.arange(len(u))[:, None], ends), open_ends)
    return (counts / np.maximum(counts.sum(-1, keepdims=True), 1.0)).reshape(shape[:-1])


class Stacked(NamedTuple):
    """Several systems of the same designs side by side; to those with fewer columns, 0 is added."""

    points: Float[np.ndarray, "b g m q"]
    widths: Float[np.ndarray, "g q"]
    outermost: Float[np.ndarray, "b g m"]


def stack_systems(systems: list[System]) -> Stacked:
    """Of designs (b, m, s)."""
    most = max(system.law.dim for system in systems)

    def widen(array: np.ndarray | Array, filling: float) -> np.ndarray:
        missing = [(0, 0)] * (array.ndim - 1) + [(0, most - array.shape[-1])]
        return np.pad(np.asarray(array), missing, constant_values=filling)

    return Stacked(
        np.stack([widen(system.points, 0.0) for system in systems], 1),
        np.stack([widen(system.widths, 1.0) for system in systems]),
        np.stack([system.outermost for system in systems], 1),
    )


def products_beyond(
    systems: list[System], coordinates: Int[np.ndarray, "b *g"]
) -> Float[np.ndarray, "b *g m m"] | None:
    """Of what lies beyond some systems of each design; None where no system leaves anything out."""
    if all(system.rest is None for system in systems):
        return None
    each = [systems[j].products(place[0]) for place, j in np.ndenumerate(coordinates)]
    return np.stack(each).reshape(*coordinates.shape, *each[0].shape)
