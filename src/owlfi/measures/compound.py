"""Measures made of measures: independent parts, and mixtures."""

from collections.abc import Iterable
from itertools import accumulate
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array

from owlfi.checks import as_array, is_traced
from owlfi.measures.base import Family, Measure, as_coordinates
from owlfi.measures.discrete import DiscreteFamily, as_probabilities
from owlfi.measures.frozen import as_measure

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
            raise ValueError("Product needs at least one measure")
        measures = [as_measure(part) for part in parts]
        nested = [m.parts if isinstance(m, Product) else (m,) for m in measures]
        self.parts = tuple(part for group in nested for part in group)

    @property
    def dim(self) -> int:
        return sum(part.dim for part in self.parts)

    @property
    def slices(self) -> list[slice]:
        """The coordinates of each part."""
        ends = list(accumulate(part.dim for part in self.parts))
        return [slice(a, b) for a, b in zip([0, *ends], ends, strict=False)]

    @property
    def support(self) -> tuple[Array, Array]:
        lows, highs = zip(*(part.support for part in self.parts), strict=True)
        return jnp.concatenate(lows), jnp.concatenate(highs)

    def from_uniform(self, v: Array) -> Array:
        v = as_coordinates("v", v, self.dim)
        pieces = [p.from_uniform(v[..., s]) for p, s in zip(self.parts, self.slices, strict=True)]
        return jnp.concatenate(pieces, -1)

    def log_density(self, u: Array) -> Array:
        u = as_coordinates("u", u, self.dim)
        pieces = [p.log_density(u[..., s]) for p, s in zip(self.parts, self.slices, strict=True)]
        return jnp.stack(pieces).sum(0)


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
        parts = tuple(components) if isinstance(components, Iterable) else ()
        if not parts:
            raise ValueError(f"components must be one or more measures in a list, got {components}")
        self.components = tuple(as_measure(part) for part in parts)
        self.weights = as_probabilities(as_array("weights", weights))
        if self.weights.shape != (len(self.components),):
            raise ValueError(
                f"weights must hold one number for each of the {len(self.components)} components, "
                f"got shape {self.weights.shape}"
            )
        dims = {component.dim for component in self.components}
        if len(dims) != 1:
            raise ValueError(f"components must have one dimension, got {sorted(dims)}")

    @property
    def dim(self) -> int:
        return self.components[0].dim

    @property
    def support(self) -> tuple[Array, Array]:
        lows, highs = zip(*(c.support for c in self.components), strict=True)
        return jnp.stack(lows).min(0), jnp.stack(highs).max(0)

    def log_density(self, u: Array) -> Array:
        u = as_coordinates("u", u, self.dim)
        parts = jnp.stack([component.log_density(u) for component in self.components], -1)
        return logsumexp(parts + jnp.log(self.weights), axis=-1)

    def from_uniform(self, v: Array) -> Array:
        if is_traced(v, self):
            raise ValueError(
                "Mixture.from_uniform runs on the host and cannot be used inside jit, vmap or "
                "grad; draw the points outside and pass them in"
            )
        v = as_coordinates("v", v, self.dim)
        levels = np.asarray(v).reshape(-1, self.dim)
        belief = np.broadcast_to(np.asarray(self.weights), (len(levels), len(self.components)))
        columns = []
        for j in range(self.dim):
            families = [_family(component, j) for component in self.components]
            x = _mixture_quantile(families, belief, levels[..., j])
            likelihood = np.stack([_density(family, x) for family in families], -1)
            belief = belief * likelihood / (belief * likelihood).sum(-1, keepdims=True)
            columns.append(x)
        return jnp.asarray(np.stack(columns, -1)).reshape(v.shape)


def coordinate(measure: Measure, j: int) -> Measure:
    """The one-dimensional measure of coordinate j, of measures with independent coordinates."""
    if measure.dim == 1 and not isinstance(measure, Product):
        return measure
    if isinstance(measure, Family):
        return measure.restrict(slice(j, j + 1))
    if isinstance(measure, Product):
        for part, columns in zip(measure.parts, measure.slices, strict=True):
            if columns.start <= j < columns.stop:
                return coordinate(part, j - columns.start)
    raise ValueError(
        f"the coordinates of {type(measure).__name__} in {measure.dim} dimensions are not "
        "independent, which is needed here; use a Product of one-dimensional measures"
    )


def _family(component: Measure, j: int) -> Family:
    family = coordinate(component, j)
    if not isinstance(family, Family):
        raise ValueError(
            "a mixture can turn uniform points into its own only where its components are "
            f"families or products of them, not with {type(family).__name__}"
        )
    return family


def _density(family: Family, x: np.ndarray) -> np.ndarray:
    frozen = family.frozen()
    return frozen.pmf(x) if isinstance(family, DiscreteFamily) else frozen.pdf(x)


def _mixture_quantile(families: list[Family], belief: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The smallest x with Σ_c belief_c F_c(x) ≥ v, by bisection between component quantiles."""
    frozen = [family.frozen() for family in families]
    quantiles = np.stack([f.ppf(v) for f in frozen])
    low, high = quantiles.min(0), quantiles.max(0)
    discrete = all(isinstance(family, DiscreteFamily) for family in families)
    low = low - 1.0 if discrete else low
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        level = sum(belief[..., c] * f.cdf(middle) for c, f in enumerate(frozen))
        low, high = np.where(level < v, middle, low), np.where(level < v, high, middle)
        if np.all(np.nextafter(low, high) >= high):
            break
    return np.round(high) if discrete else high
