"""Any frozen scipy.stats distribution as a measure."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from owlfi.checks import is_traced
from owlfi.measures import families
from owlfi.measures.base import Family, Measure
from owlfi.measures.discrete import DiscreteFamily, Poisson


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
    own = _OWN.get(value.dist.name)
    if own is not None:
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

    def coordinate_log_density(self, u: Array, from_low: Array, to_high: Array) -> Array:
        if is_traced(u, from_low):
            raise ValueError(
                f"scipy.stats.{self.distribution.dist.name} is evaluated on the host and cannot "
                "be used inside jit, vmap or grad; use an owlfi measure there"
            )
        shapes, loc, scale = _parameters(self.distribution)
        standard = self.distribution.dist(*shapes)
        low = standard.support()[0]  # measured from there, a singular lower end keeps its digits
        z = (
            low + np.asarray(from_low) / scale
            if np.isfinite(low)
            else (np.asarray(u) - loc) / scale
        )
        return jnp.asarray(standard.logpdf(z) - np.log(scale))


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
