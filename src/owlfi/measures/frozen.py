"""Any frozen scipy.stats distribution as a measure."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import scipy.stats
from jax.typing import ArrayLike
from jaxtyping import Array

from owlfi._tools.checks import is_traced
from owlfi.measures import families
from owlfi.measures.base import Family, Measure
from owlfi.measures.discrete import DiscreteFamily, Empirical, Poisson

_RESOLVED = 2.0**-20  # of a point's value: nearer to it, scipy's density loses digits
_ROUNDED = 2.0**-51  # and nearer than this, all
_LOSING = 2.0**-6  # beyond, it loses none


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

    def as_scipy(self) -> Any:
        return self.distribution

    @property
    def label(self) -> str:
        """What a user calls it."""
        arguments = ", ".join(_arguments(self.distribution))
        return f"scipy.stats.{self.distribution.dist.name}({arguments})"

    @property
    def singular_points(self) -> tuple[float, ...]:
        """Where the density is infinite inside the support."""
        standard = _standard(self.distribution)
        return tuple(standard.loc + standard.scale * z for z in _blow_ups(self.distribution))

    @property
    def jumps(self) -> np.ndarray:
        """Where the density is known to jump; scipy shows the bins of a histogram nowhere else."""
        standard = _standard(self.distribution)
        bins = getattr(self.distribution.dist, "_hbins", ())
        return standard.loc + standard.scale * np.asarray(bins, float)

    def tail_distances(self, level: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        standard = _standard(self.distribution)
        centred = FrozenContinuous(standard.distribution)  # a location would swallow distances
        lower, upper = Family.tail_distances(centred, level)
        return (
            standard.scale * _extrapolated(standard.distribution, lower, level, 0),
            standard.scale * _extrapolated(standard.distribution, upper, level, 1),
        )

    def distances_beside(self, point: float, sign: float, level: np.ndarray) -> np.ndarray:
        """How far from a singular point, on one side of it, the density has piled up a level."""
        standard = _standard(self.distribution)
        z = _nearest(_blow_ups(self.distribution), (point - standard.loc) / standard.scale)
        return standard.scale * _law_distances(standard.distribution, z, sign, level)

    def coordinate_log_density(self, u: Array, from_low: Array, to_high: Array) -> Array:
        """From the distance to the nearer end, where there is one: scipy sees only u."""
        self._refuse_traced(u, from_low, to_high)
        standard = _standard(self.distribution)
        low, high = standard.distribution.support()
        distances = np.asarray(from_low), np.asarray(to_high)
        if np.isinf([low, high]).all():
            z = (np.asarray(u) - standard.loc) / standard.scale
            return jnp.asarray(standard.distribution.logpdf(z) - np.log(standard.scale))
        below = distances[0] <= distances[1]
        sides = ((low, 1.0, distances[0]), (high, -1.0, distances[1]))
        finite = [side for side in sides if np.isfinite(side[0])]
        values = [_log_density_beside(standard, *side) for side in finite]
        return jnp.asarray(np.where(below, values[0], values[-1]))

    def _refuse_traced(self, *arrays: ArrayLike) -> None:
        if is_traced(*arrays):
            raise ValueError(
                f"scipy.stats.{self.distribution.dist.name} is evaluated on the host and cannot "
                "be used inside jit, vmap or grad; use an owlfi measure there"
            )

    def log_density_beside(self, origin: float, sign: float, distance: ArrayLike) -> np.ndarray:
        """At origin + sign · distance, exact however near to an end or to a singular point."""
        self._refuse_traced(distance)
        distance = np.asarray(distance)
        standard = _standard(self.distribution)
        z = (origin - standard.loc) / standard.scale
        special = (*standard.distribution.support(), *_blow_ups(self.distribution))
        known = _nearest(special, z)
        if standard.loc + standard.scale * known == origin:
            return _log_density_beside(standard, known, sign, distance)
        value = standard.distribution.logpdf(z + sign * distance / standard.scale)
        return value - np.log(standard.scale)


class _Standard(NamedTuple):
    """A frozen distribution as loc + scale · (another)."""

    distribution: Any
    loc: float
    scale: float


@lru_cache(maxsize=128)
def _standard(frozen: Any) -> _Standard:
    shapes, loc, scale = _parameters(frozen)
    return _Standard(frozen.dist(*shapes), float(loc), float(scale))


def _nearest(points: tuple[float, ...], z: float) -> float:
    return min(points, key=lambda point: abs(point - z))


class _Law(NamedTuple):
    """How a density goes beside a point: distance^power exp(Σ_k bends_k distance^k)."""

    power: float
    bends: np.ndarray

    def log_density(self, distance: np.ndarray) -> np.ndarray:
        """Up to a constant."""
        return self.power * np.log(distance) + np.polyval([*self.bends[::-1], 0.0], distance)


def _log_density_beside(
    standard: _Standard, point: float, sign: float, distance: np.ndarray
) -> np.ndarray:
    """By the law beside the point, where there is one, for what rounding swallows."""
    law = _law(standard.distribution, point, sign)
    distance = distance / standard.scale
    unit = _unit(standard.distribution, point) if point else 0.0  # distances from 0 are exact
    least = unit * _RESOLVED if law else abs(point) * _ROUNDED
    z = point + sign * np.where(distance > 0, np.maximum(distance, least), 0.0)
    value = standard.distribution.logpdf(z) - np.log(standard.scale)
    swallowed = (distance > 0) & (distance < _LOSING * unit)
    if law is None or not swallowed.any():
        return value
    kept = np.where(swallowed, np.abs(z - point), 1.0)
    lost = law.log_density(np.where(swallowed, distance, 1.0)) - law.log_density(kept)
    return value + np.where(swallowed, lost, 0.0)


@lru_cache(maxsize=512)
def _law(distribution: Any, point: float, sign: float) -> _Law | None:
    """The law of the density beside a point.

    It holds at every small scale: a density that vanishes exponentially has none.
    """
    if np.isinf(point):
        return None
    far, near = (_fitted_law(distribution, point, sign, step) for step in (_RESOLVED, 2.0**-26))
    stable = abs(far.power - near.power) <= 1e-5 * (1 + abs(near.power))
    return far if stable and far.power > -1 else None


def _fitted_law(distribution: Any, point: float, sign: float, step: float) -> _Law:
    """Through the densities at five distances, each twice the one before."""
    unit, t = step * _unit(distribution, point), 2.0 ** np.arange(5)
    z = point + sign * unit * t
    t = np.abs(z - point) / unit
    with np.errstate(all="ignore"):
        heights = distribution.logpdf(z)
        _, power, *bends = np.linalg.solve(np.stack([t**0, np.log(t), t, t**2, t**3], 1), heights)
    return _Law(float(power), np.array(bends) / unit ** np.arange(1, 4))


@lru_cache(maxsize=512)
def _unit(distribution: Any, point: float) -> float:
    """Small parts of it are small for rounding and for the density."""
    spread = float(np.diff(distribution.ppf([0.001, 0.999]))[0])
    return min(abs(point) or spread, spread)


def _extrapolated(
    distribution: Any, distances: np.ndarray, level: np.ndarray, side: int
) -> np.ndarray:
    """Falling distances of quantiles from their end, by its law where scipy rounds to it."""
    end, sign = distribution.support()[side], (1.0, -1.0)[side]
    if end == 0 or _law(distribution, end, sign) is None:
        return distances
    exact = distances > _RESOLVED * _unit(distribution, end)
    return np.where(exact, distances, _law_distances(distribution, end, sign, level))


def _law_distances(distribution: Any, point: float, sign: float, level: np.ndarray) -> np.ndarray:
    """How far from a point the density has piled up a small probability."""
    law, unit = _law(distribution, point, sign), _unit(distribution, point)
    if law is None:
        return unit * level
    z = point + sign * _RESOLVED * unit
    height = distribution.logpdf(z) - law.log_density(np.abs(z - point))  # at distance 1
    mass = np.exp(height) / (1 + law.power)
    with np.errstate(over="ignore"):
        return (level / mass) ** (1 / (1 + law.power))


@lru_cache(maxsize=128)
def _blow_ups(frozen: Any) -> tuple[float, ...]:
    """Where the density of the standard distribution is infinite inside its support."""
    distribution = _standard(frozen).distribution
    z = distribution.ppf(np.linspace(0.0, 1.0, 33)[1:-1])
    height = _heights(distribution, z)
    top = (height[1:-1] > height[:-2]) & (height[1:-1] >= height[2:])
    peaks = [_climb(distribution, z[i], z[i + 2]) for i in np.flatnonzero(top)]
    return tuple(sorted({z for z in peaks if _is_singular(distribution, z)}))


def _is_singular(distribution: Any, z: float) -> bool:
    laws = [_law(distribution, z, sign) for sign in (-1.0, 1.0)]
    return any(law is not None and law.power < -1e-3 for law in laws)


def _climb(distribution: Any, low: float, high: float) -> float:
    """Where the density is largest, to the last digit as long as it goes on rising."""
    highest = -np.inf
    while True:
        z = np.linspace(low, high, 65)
        height = _heights(distribution, z)
        top = int(height.argmax())
        if np.isinf(height[top]) or height[top] < highest + 1e-3:
            return float(z[top])
        low, high, highest = z[max(top - 1, 0)], z[min(top + 1, 64)], height[top]


def _heights(distribution: Any, z: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.nan_to_num(distribution.logpdf(z), nan=np.inf, posinf=np.inf, neginf=-1e300)


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

    def as_scipy(self) -> Any:
        return self.distribution

    def coordinate_log_density(self, u: Array, from_low: Array, to_high: Array) -> Array:
        return jnp.asarray(self.distribution.logpmf(np.asarray(u)))
