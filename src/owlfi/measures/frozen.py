"""Any frozen scipy.stats distribution as a measure."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import scipy.stats
from jaxtyping import Array

from owlfi.checks import is_traced
from owlfi.measures import families
from owlfi.measures.base import Family, Measure
from owlfi.measures.discrete import DiscreteFamily, Empirical, Poisson

_RESOLVED = 2.0**-30  # of an end's value: nearer to it, scipy's density has few digits


def as_measure(value: Any) -> Measure:
    """A measure, or a frozen scipy.stats distribution turned into one.

    Distributions that owlfi has itself become owlfi's, with their closed forms.

    >>> import scipy.stats
    >>> type(as_measure(scipy.stats.norm(1.0, 2.0))).__name__
    'Normal'
    """
    if isinstance(value, Measure):
        return value
    if not (hasattr(value, "dist") and hasattr(value, "ppf")):
        raise ValueError(
            "measure must be an owlfi measure such as Uniform(0, 1) or a frozen univariate "
            f"scipy.stats distribution such as scipy.stats.gumbel_r(), got {value!r}"
        )
    shapes, loc, scale = _parameters(value)
    if hasattr(value.dist, "xk"):  # a table of atoms
        return Empirical(loc + np.asarray(value.dist.xk, float), value.dist.pk)
    own = _OWN.get(value.dist.name)
    if own is not None and isinstance(value.dist, type(getattr(scipy.stats, value.dist.name))):
        measure = own(*shapes, loc, scale)
        if measure is not None:
            return measure
    if any(np.ndim(parameter) for parameter in (*shapes, loc, scale)):
        raise ValueError(
            f"measure is scipy.stats.{value.dist.name} with array parameters; "
            "use Product(...) of one distribution a coordinate"
        )
    if np.isnan([*value.support(), value.median()]).any():
        raise ValueError(
            f"measure is scipy.stats.{value.dist.name} with parameters that it does not allow: "
            f"{', '.join(_arguments(value))}; correct them (a scale must be positive)"
        )
    return FrozenContinuous(value) if hasattr(value.dist, "pdf") else FrozenDiscrete(value)


def _parameters(frozen: Any) -> tuple[tuple[Any, ...], Any, Any]:
    parsed = frozen.dist._parse_args(*frozen.args, **frozen.kwds)
    return tuple(parsed[0]), parsed[1], parsed[2] if len(parsed) > 2 else 1.0


def _arguments(frozen: Any) -> list[str]:
    return [*map(str, frozen.args), *(f"{name}={value}" for name, value in frozen.kwds.items())]


def _at_zero(make: Callable[..., Measure]) -> Callable[..., Measure | None]:
    """Only where loc is 0: owlfi's family has no location."""
    return lambda *args: make(*args[:-2], args[-1]) if np.all(args[-2] == 0) else None


def _on_unit_interval(make: Callable[..., Measure]) -> Callable[..., Measure | None]:
    return lambda *args: make(*args[:-2]) if args[-2:] == (0, 1) else None


_OWN: dict[str, Callable[..., Measure | None]] = {
    "norm": families.Normal,
    "uniform": lambda loc, scale: families.Uniform(loc, loc + scale),
    "laplace": families.Laplace,
    "t": families.StudentT,
    "cauchy": lambda loc, scale: families.StudentT(1.0, loc, scale),
    "truncnorm": lambda a, b, loc, scale: families.TruncatedNormal(
        loc, scale, loc + scale * a, loc + scale * b
    ),
    "expon": _at_zero(lambda scale: families.Exponential(1 / scale)),
    "gamma": _at_zero(lambda a, scale: families.Gamma(a, 1 / scale)),
    "chi2": _at_zero(lambda df, scale: families.Gamma(df / 2, 0.5 / scale)),
    "halfnorm": _at_zero(families.HalfNormal),
    "lognorm": _at_zero(lambda s, scale: families.LogNormal(np.log(scale), s)),
    "beta": _on_unit_interval(families.Beta),
    "arcsine": _on_unit_interval(lambda: families.Beta(0.5, 0.5)),
    "poisson": _at_zero(lambda rate, _: Poisson(rate)),
}


class FrozenContinuous(Family):
    """A continuous frozen scipy.stats distribution, evaluated on the host."""

    distribution: Any = eqx.field(static=True)

    @property
    def dim(self) -> int:
        return 1

    @property
    def support(self) -> tuple[Array, Array]:
        low, high = self.distribution.support()
        return jnp.array([low], float), jnp.array([high], float)

    def restrict(self, coordinates: slice) -> "FrozenContinuous":
        return self

    def frozen(self) -> Any:
        return self.distribution

    def tail_distances(self, level: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        lower, upper = super().tail_distances(level)
        low_power, high_power = _standard(self.distribution).powers
        low, high = self.distribution.support()
        return (
            _extrapolated(lower, level, low, low_power),
            _extrapolated(upper, level, high, high_power),
        )

    def coordinate_log_density(self, u: Array, from_low: Array, to_high: Array) -> Array:
        """With a singular end that is not 0, by the power law there: scipy sees only u."""
        if is_traced(u, from_low, to_high):
            raise ValueError(
                f"scipy.stats.{self.distribution.dist.name} is evaluated on the host and cannot "
                "be used inside jit, vmap or grad; use an owlfi measure there"
            )
        standard = _standard(self.distribution)
        if np.isinf(standard.ends).all():
            z = (np.asarray(u) - standard.loc) / standard.scale
            return jnp.asarray(standard.distribution.logpdf(z) - np.log(standard.scale))
        below = np.asarray(from_low) <= np.asarray(to_high)
        end, sign, power = (
            np.where(below, *sides) for sides in (standard.ends, (1.0, -1.0), standard.powers)
        )
        distance = np.where(below, from_low, to_high) / standard.scale
        z = end + sign * np.where(distance > 0, np.maximum(distance, _RESOLVED * np.abs(end)), 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            lost = power * np.log(distance / np.abs(z - end))
        lost = np.where(distance > 0, lost, 0.0)
        return jnp.asarray(standard.distribution.logpdf(z) + lost - np.log(standard.scale))


class _Standard(NamedTuple):
    """A frozen distribution as loc + scale · (another), with the ends of that one's support.

    Its density goes as the powers of the distance to each end.
    """

    distribution: Any
    loc: float
    scale: float
    ends: tuple[float, float]
    powers: tuple[float, float]


@lru_cache(maxsize=128)
def _standard(frozen: Any) -> _Standard:
    shapes, loc, scale = _parameters(frozen)
    distribution = frozen.dist(*shapes)
    low, high = distribution.support()
    powers = _power(distribution, low, 1.0), _power(distribution, high, -1.0)
    return _Standard(distribution, loc, scale, (low, high), powers)


def _power(distribution: Any, end: float, sign: float) -> float:
    """p where the density goes as the distance from the end to the power p; 0 if it does not."""
    if np.isinf(end):
        return 0.0
    z = end + sign * _RESOLVED * (abs(end) or 1.0) * np.array([1.0, 2.0])
    with np.errstate(invalid="ignore"):
        power = np.diff(distribution.logpdf(z))[0] / np.diff(np.log(np.abs(z - end)))[0]
    return float(power) if np.isfinite(power) else 0.0


def _extrapolated(distances: np.ndarray, level: np.ndarray, end: float, power: float) -> np.ndarray:
    """Falling distances of quantiles from their end, by the power law where scipy rounds to it."""
    if np.isinf(end):
        return distances
    exact = distances > _RESOLVED * abs(end)
    last = max(int(exact.sum()) - 1, 0)
    law = distances[last] * (level / level[last]) ** (1 / (1 + max(power, -0.99)))
    return np.where(exact, distances, law)


class FrozenDiscrete(DiscreteFamily):
    """A discrete frozen scipy.stats distribution, evaluated on the host."""

    distribution: Any = eqx.field(static=True)

    @property
    def dim(self) -> int:
        return 1

    @property
    def support(self) -> tuple[Array, Array]:
        low, high = self.distribution.support()
        return jnp.array([low], float), jnp.array([high], float)

    def restrict(self, coordinates: slice) -> "FrozenDiscrete":
        return self

    def frozen(self) -> Any:
        return self.distribution

    def coordinate_log_density(self, u: Array, from_low: Array, to_high: Array) -> Array:
        return jnp.asarray(self.distribution.logpmf(np.asarray(u)))
