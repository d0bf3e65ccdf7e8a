"""Any frozen scipy.stats distribution as a measure."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import scipy
from jax.typing import ArrayLike
from jaxtyping import Array

from owlfi._tools.checks import brief, is_traced
from owlfi.measures.base import Family, Measure
from owlfi.measures.discrete import DiscreteFamily, Empirical, Poisson
from owlfi.measures.families import Beta, Exponential, Gamma, Laplace, StudentT, Uniform
from owlfi.measures.normal import HalfNormal, LogNormal, Normal, TruncatedNormal
from owlfi.measures.singularities import (
    extrapolate,
    find_singular_points,
    law_distances,
    log_density_beside,
    nearest,
    split_parameters,
    standardise,
)


def as_measure(value: Any, *, name: str = "measure") -> Measure:
    """A measure, or a frozen scipy.stats distribution turned into one.

    name: what errors call it.

    Distributions that owlfi has itself become owlfi's, with their closed forms.

    >>> import scipy.stats
    >>> type(as_measure(scipy.stats.norm(1.0, 2.0))).__name__
    'Normal'
    """
    if isinstance(value, Measure):
        return value
    families = scipy.stats.rv_continuous | scipy.stats.rv_discrete
    if not isinstance(getattr(value, "dist", None), families):
        raise ValueError(
            f"{name} must be an owlfi measure such as Uniform(0, 1) or a frozen univariate "
            f"scipy.stats distribution such as scipy.stats.gumbel_r(), got {brief(value)}"
        )
    own = _as_own(value)
    if own is not None:
        return own
    _check_parameters(value)
    return FrozenContinuous(value) if hasattr(value.dist, "pdf") else FrozenDiscrete(value)


def _as_own(frozen: Any) -> Measure | None:
    """Where owlfi has such a distribution itself."""
    shapes, loc, scale = split_parameters(frozen)
    if hasattr(frozen.dist, "xk"):  # a table of atoms
        return Empirical(loc + np.asarray(frozen.dist.xk, float), frozen.dist.pk)
    make = _OWN.get(frozen.dist.name)
    if make is None or not isinstance(frozen.dist, type(getattr(scipy.stats, frozen.dist.name))):
        return None
    return make(*shapes, loc, scale)


def _check_parameters(frozen: Any) -> None:
    """Raise ValueError for arrays, and for numbers that scipy answers with NaN."""
    shapes, loc, scale = split_parameters(frozen)
    if any(np.ndim(parameter) for parameter in (*shapes, loc, scale)):
        raise ValueError(
            f"measure is scipy.stats.{frozen.dist.name} with array parameters; "
            "use Product(...) of one distribution a coordinate"
        )
    if np.isnan([*frozen.support(), frozen.median()]).any():
        raise ValueError(
            f"measure is scipy.stats.{frozen.dist.name} with parameters that it does not allow: "
            f"{', '.join(_arguments(frozen))}; correct them (a scale must be positive)"
        )


def _arguments(frozen: Any) -> list[str]:
    return [*map(str, frozen.args), *(f"{name}={value}" for name, value in frozen.kwds.items())]


def _at_zero(make: Callable[..., Measure]) -> Callable[..., Measure | None]:
    """Only where loc is 0: owlfi's family has no location."""
    return lambda *args: make(*args[:-2], args[-1]) if np.all(args[-2] == 0) else None


def _on_unit_interval(make: Callable[..., Measure]) -> Callable[..., Measure | None]:
    return lambda *args: make(*args[:-2]) if args[-2:] == (0, 1) else None


_OWN: dict[str, Callable[..., Measure | None]] = {
    "norm": Normal,
    "uniform": lambda loc, scale: Uniform(loc, loc + scale),
    "laplace": Laplace,
    "t": StudentT,
    "cauchy": lambda loc, scale: StudentT(1.0, loc, scale),
    "truncnorm": lambda a, b, loc, scale: TruncatedNormal(
        loc, scale, loc + scale * a, loc + scale * b
    ),
    "expon": _at_zero(lambda scale: Exponential(1 / scale)),
    "gamma": _at_zero(lambda a, scale: Gamma(a, 1 / scale)),
    "chi2": _at_zero(lambda df, scale: Gamma(df / 2, 0.5 / scale)),
    "halfnorm": _at_zero(HalfNormal),
    "lognorm": _at_zero(lambda s, scale: LogNormal(np.log(scale), s)),
    "beta": _on_unit_interval(Beta),
    "arcsine": _on_unit_interval(lambda: Beta(0.5, 0.5)),
    "poisson": _at_zero(lambda rate, _: Poisson(rate)),
}


class Frozen(Family):
    """A frozen scipy.stats distribution on the line, evaluated on the host."""

    distribution: Any = eqx.field(static=True)

    def __repr__(self) -> str:
        return (
            f"scipy.stats.{self.distribution.dist.name}({', '.join(_arguments(self.distribution))})"
        )

    @property
    def traceable_density(self) -> bool:
        return False

    @property
    def dim(self) -> int:
        return 1

    @property
    def support(self) -> tuple[Array, Array]:
        low, high = self.distribution.support()
        return jnp.array([low], float), jnp.array([high], float)

    def restrict(self, coordinates: slice) -> "Frozen":
        return self

    def as_scipy(self) -> Any:
        return self.distribution

    def refuse_traced(self, *arrays: ArrayLike) -> None:
        """Raise ValueError inside jit, vmap or grad."""
        if is_traced(*arrays):
            raise ValueError(
                f"scipy.stats.{self.distribution.dist.name} is evaluated on the host and cannot "
                "be used inside jit, vmap or grad; use an owlfi measure there"
            )


class FrozenContinuous(Frozen):
    """A continuous frozen scipy.stats distribution, evaluated on the host."""

    @property
    def singular_points(self) -> tuple[float, ...]:
        """Where the density is infinite inside the support."""
        standard = standardise(self.distribution)
        return tuple(
            standard.loc + standard.scale * z for z in find_singular_points(self.distribution)
        )

    @property
    def jumps(self) -> np.ndarray:
        """Where the density is known to jump; scipy shows the bins of a histogram nowhere else."""
        standard = standardise(self.distribution)
        bins = getattr(self.distribution.dist, "_hbins", ())
        return standard.loc + standard.scale * np.asarray(bins, float)

    def tail_distances(self, level: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        standard = standardise(self.distribution)
        centred = FrozenContinuous(standard.distribution)  # a location would swallow distances
        lower, upper = Family.tail_distances(centred, level)
        return (
            standard.scale * extrapolate(standard.distribution, lower, level, 0),
            standard.scale * extrapolate(standard.distribution, upper, level, 1),
        )

    def distances_beside(self, point: float, sign: float, level: np.ndarray) -> np.ndarray:
        """How far from a singular point, on one side of it, the density has piled up a level."""
        standard = standardise(self.distribution)
        z = nearest(
            find_singular_points(self.distribution), (point - standard.loc) / standard.scale
        )
        return standard.scale * law_distances(standard.distribution, z, sign, level)

    def coordinate_log_density(self, u: Array, from_low: Array, to_high: Array) -> Array:
        """From the distance to the nearer end, where there is one: scipy sees only u."""
        self.refuse_traced(u, from_low, to_high)
        standard = standardise(self.distribution)
        low, high = standard.distribution.support()
        distances = np.asarray(from_low), np.asarray(to_high)
        if np.isinf([low, high]).all():
            z = (np.asarray(u) - standard.loc) / standard.scale
            return jnp.asarray(standard.distribution.logpdf(z) - np.log(standard.scale))
        below = distances[0] <= distances[1]
        sides = ((low, 1.0, distances[0]), (high, -1.0, distances[1]))
        finite = [side for side in sides if np.isfinite(side[0])]
        values = [log_density_beside(standard, *side) for side in finite]
        return jnp.asarray(np.where(below, values[0], values[-1]))

    def log_density_beside(self, origin: float, sign: float, distance: ArrayLike) -> np.ndarray:
        """At origin + sign · distance, exact however near to an end or to a singular point."""
        self.refuse_traced(distance)
        distance = np.asarray(distance)
        standard = standardise(self.distribution)
        z = (origin - standard.loc) / standard.scale
        special = (*standard.distribution.support(), *find_singular_points(self.distribution))
        known = nearest(special, z)
        if standard.loc + standard.scale * known == origin:
            return log_density_beside(standard, known, sign, distance)
        value = standard.distribution.logpdf(z + sign * distance / standard.scale)
        return value - np.log(standard.scale)


class FrozenDiscrete(Frozen, DiscreteFamily):
    """A discrete frozen scipy.stats distribution, evaluated on the host."""

    def coordinate_log_density(self, u: Array, from_low: Array, to_high: Array) -> Array:
        self.refuse_traced(u)
        return jnp.asarray(self.distribution.logpmf(np.asarray(u)))
