"""Measures made of measures: independent parts, and mixtures."""

from itertools import accumulate, pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float

from owlfi._tools.arrays import as_jax, numpy_for
from owlfi._tools.checks import as_array, brief, is_traced
from owlfi._tools.display import write_arguments
from owlfi._tools.ranks import lift
from owlfi.measures.base import Family, LineFamily, Measure, as_coordinates
from owlfi.measures.discrete import DiscreteFamily, as_probabilities
from owlfi.measures.frozen import as_measure
from owlfi.measures.joint import MultivariateNormal

_BISECTIONS = 200


class Product(Measure):
    """Independent parts side by side, each a measure or a frozen scipy.stats distribution.

    >>> from owlfi.measures import Normal, Uniform
    >>> Product(Normal(dim=2), Uniform(-1, 1)).dim
    3
    """

    parts: tuple[Measure, ...]

    def __init__(self, *parts: Any):
        if not parts:
            raise ValueError(
                "Product needs at least one measure; write Product(Normal(), Uniform())"
            )
        if any(isinstance(part, (list, tuple)) for part in parts):
            raise ValueError(
                "parts of a Product are separate arguments; write Product(a, b), not a list"
            )
        measures = [as_measure(part, name="each part") for part in parts]
        self.parts = tuple(part for measure in measures for part in parts_of(measure))

    def __repr__(self) -> str:
        return write_arguments(self, self.parts)

    @property
    def dim(self) -> int:
        return sum(part.dim for part in self.parts)

    @property
    def traceable(self) -> bool:
        return all(part.traceable for part in self.parts)

    @property
    def traceable_density(self) -> bool:
        return all(part.traceable_density for part in self.parts)

    @property
    def slices(self) -> list[slice]:
        """The coordinates of each part."""
        ends = list(accumulate(part.dim for part in self.parts))
        return [slice(a, b) for a, b in zip([0, *ends], ends, strict=False)]

    @property
    def support(self) -> tuple[Array, Array]:
        lows, highs = zip(*(part.support for part in self.parts), strict=True)
        numpy = numpy_for(lows, highs)
        return as_jax(numpy.concatenate(lows)), as_jax(numpy.concatenate(highs))

    @property
    def groups(self) -> list[tuple[Measure, slice | np.ndarray]]:
        """Measures and their columns, parts of one family as one: programs grow with the groups."""
        found: dict[Any, list[tuple[Measure, slice]]] = {}
        for part, columns in zip(self.parts, self.slices, strict=True):
            alike = type(part) if isinstance(part, LineFamily) else id(part)
            found.setdefault(alike, []).append((part, columns))
        return [_join(group) for group in found.values()]

    def at_levels(self, v: Array) -> Array:
        groups = self.groups
        pieces = [measure.at_levels(v[..., columns]) for measure, columns in groups]
        places = np.concatenate([np.arange(self.dim)[columns] for _, columns in groups])
        return jnp.concatenate(pieces, -1)[..., np.argsort(places)]

    def to_levels(self, u: Float[np.ndarray, "n s"]) -> Float[np.ndarray, "n s"]:
        found = np.empty(u.shape)
        for measure, columns in self.groups:
            found[:, columns] = measure.to_levels(u[:, columns])
        return found

    def log_density(self, u: Any) -> Array:
        u = as_coordinates("u", u, self.dim)
        pieces = [measure.log_density(u[..., columns]) for measure, columns in self.groups]
        return jnp.stack(pieces).sum(0)

    def excludes(self, u: Float[Array, "n s"]) -> Bool[np.ndarray, " n"]:
        rows = np.asarray(u)
        each = zip(self.parts, self.slices, strict=True)
        return np.any([part.excludes(as_jax(rows[:, own])) for part, own in each], 0)


def parts_of(measure: Measure) -> tuple[Measure, ...]:
    """The independent parts of a measure."""
    return measure.parts if isinstance(measure, Product) else (measure,)


def _join(parts: list[tuple[Measure, slice]]) -> tuple[Measure, slice | np.ndarray]:
    """Parts of one family as one measure, and the columns of all of them."""
    if len(parts) == 1:
        return parts[0]
    measures, columns = zip(*parts, strict=True)
    places = [np.arange(own.start, own.stop) for own in columns]
    joined = jax.tree.map(lambda *leaves: numpy_for(leaves).concatenate(leaves), *measures)
    return jax.tree.map(as_jax, joined), np.concatenate(places)


class Mixture(Measure):
    """A mixture of measures of one dimension, with weights that sum to one.

    Points come from uniform ones coordinate by coordinate, each by the quantile of its
    distribution given the coordinates before it, so low-discrepancy points keep their order.

    >>> from owlfi.measures import Normal
    >>> Mixture([Normal(-2, 1), Normal(2, 1)], [0.5, 0.5]).from_uniform(jnp.array([0.9])).round(3)
    Array([2.842], dtype=float64)
    """

    components: tuple[Measure, ...]
    weights: Array

    def __init__(self, components: Any, weights: Any):
        try:
            parts = tuple(components)
        except Exception:  # of its own __iter__, too
            parts = ()
        if not parts:
            found = brief(components)
            raise ValueError(f"components must be one or more measures in a list, got {found}")
        self.components = tuple(as_measure(part, name="each of components") for part in parts)
        self.weights = as_probabilities(as_array("weights", weights))
        if self.weights.shape != (len(self.components),):
            raise ValueError(
                f"weights must hold one number for each of the {len(self.components)} components, "
                f"got shape {self.weights.shape}"
            )
        dims = {component.dim for component in self.components}
        if len(dims) != 1:
            raise ValueError(f"components must have one dimension, got {sorted(dims)}")

    def __repr__(self) -> str:
        return write_arguments(self, [list(self.components), self.weights])

    @property
    def dim(self) -> int:
        return self.components[0].dim

    @property
    def traceable(self) -> bool:
        return False  # quantiles are found by bisection

    @property
    def traceable_density(self) -> bool:
        return all(component.traceable_density for component in self.components)

    @property
    def support(self) -> tuple[Array, Array]:
        lows, highs = zip(*(c.support for c in self.components), strict=True)
        return jnp.stack(lows).min(0), jnp.stack(highs).max(0)

    def log_density(self, u: Any) -> Array:
        u = as_coordinates("u", u, self.dim)
        parts = jnp.stack([component.log_density(u) for component in self.components], -1)
        return logsumexp(parts + lift(jnp.log(self.weights), parts.ndim), axis=-1)

    def excludes(self, u: Float[Array, "n s"]) -> Bool[np.ndarray, " n"]:
        return np.isneginf(np.asarray(self.log_density(u)))

    def at_levels(self, v: Array) -> Array:
        if is_traced(v, self):
            raise ValueError(
                "Mixture.from_uniform runs on the host and cannot be used inside jit, vmap or "
                "grad; draw the points outside and pass them in"
            )
        levels = np.asarray(v).reshape(-1, self.dim)
        inside = levels.clip(np.finfo(float).tiny, 1 - 2.0**-53)
        belief = np.broadcast_to(np.asarray(self.weights), (len(levels), len(self.components)))
        columns: list[np.ndarray] = []
        for j in range(self.dim):
            before = np.stack(columns, -1) if columns else levels[:, :0]
            families = [_family(component, j, before) for component in self.components]
            x = _mixture_quantile(families, belief, inside[..., j])
            likelihood = np.stack([_density(family, x) for family in families], -1)
            belief = belief * likelihood / (belief * likelihood).sum(-1, keepdims=True)
            columns.append(x)
        points, (low, high) = np.stack(columns, -1), (end[None] for end in self.support)
        ends = jnp.where(levels == 0, low, jnp.where(levels == 1, high, points))
        return ends.reshape(v.shape)


def coordinate(measure: Measure, j: int) -> Measure:
    """The one-dimensional measure of coordinate j, of measures with independent coordinates."""
    return marginal(measure, slice(j, j + 1))


def marginal(measure: Measure, columns: slice) -> Measure:
    """The measure of some columns that are independent of the others."""
    if isinstance(measure, Product):
        pieces = [
            marginal(
                part,
                slice(max(columns.start - own.start, 0), min(columns.stop, own.stop) - own.start),
            )
            for part, own in zip(measure.parts, measure.slices, strict=True)
            if own.start < columns.stop and columns.start < own.stop
        ]
        return pieces[0] if len(pieces) == 1 else Product(*pieces)
    if columns == slice(0, measure.dim):
        return measure
    if isinstance(measure, Family):
        return measure.restrict(columns)
    raise ValueError(
        f"the coordinates of {type(measure).__name__} in {measure.dim} dimensions are not "
        "independent, which is needed here; use a Product of one-dimensional measures"
    )


def independent_blocks(first: Measure, second: Measure) -> list[slice]:
    """The shortest runs of columns that are independent of the others in both measures."""
    return [slice(a, b) for a, b in pairwise(sorted(_cuts(first) & _cuts(second)))]


def _cuts(measure: Measure) -> set[int]:
    if isinstance(measure, Family):
        return set(range(measure.dim + 1))
    if isinstance(measure, Product):
        pieces = zip(measure.parts, measure.slices, strict=True)
        return {own.start + cut for part, own in pieces for cut in _cuts(part)}
    return {0, measure.dim}


def _family(component: Measure, j: int, before: np.ndarray) -> Family:
    """Coordinate j given those before it; of one that depends on them, one for each point."""
    if isinstance(component, MultivariateNormal):
        return component.given(before)
    family = coordinate(component, j)
    if not isinstance(family, Family):
        raise ValueError(
            "a mixture can turn uniform points into its own only where its components are "
            f"families or products of them, not with {type(family).__name__}; draw with iid"
        )
    return family


def _density(family: Family, x: np.ndarray) -> np.ndarray:
    frozen = family.as_scipy()
    return frozen.pmf(x) if isinstance(family, DiscreteFamily) else frozen.pdf(x)


def _mixture_quantile(families: list[Family], belief: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The smallest x with Σ_c belief_c F_c(x) ≥ v, by bisection between component quantiles.

    Above the median by the probability that is left, which has more digits there.
    """
    frozen = [family.as_scipy() for family in families]
    quantiles = np.stack([np.where(v > 0.5, f.isf(1 - v), f.ppf(v)) for f in frozen])
    low, high = quantiles.min(0), quantiles.max(0)
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        below, above = (
            sum(belief[..., c] * side(middle) for c, side in enumerate(sides))
            for sides in ([f.cdf for f in frozen], [f.sf for f in frozen])
        )
        left = np.where(v > 0.5, above > 1 - v, below < v)
        low, high = np.where(left, middle, low), np.where(left, high, middle)
        if np.all(np.nextafter(low, high) >= high):
            break
    for family in families:
        high = _on_atoms(family, high) if isinstance(family, DiscreteFamily) else high
    return high


def _on_atoms(family: DiscreteFamily, x: np.ndarray) -> np.ndarray:
    """Points that bisection left just beside an atom."""
    first = np.asarray(family.support[0])[0]
    offset = first - np.floor(first) if np.isfinite(first) else 0.0
    atoms = offset + np.round(x - offset)
    return np.where(np.abs(x - atoms) <= 1e-12 * np.maximum(1.0, np.abs(x)), atoms, x)
