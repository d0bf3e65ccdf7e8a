"""What is believed of the parameters before the data: one measure on the line for each."""

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Key

from owlfi._tools.arrays import as_jax
from owlfi._tools.checks import as_array, as_kind, as_rows
from owlfi._tools.display import html_table, write_arguments
from owlfi.measures import DiscreteFamily, Empirical, Measure, Mixture, Product, as_measure
from owlfi.points.sequences import sobol
from owlfi.problem.jax_or_host import Runtime, choose_runtime, compile_where_it_runs
from owlfi.problem.real_line import Ends, from_real, log_slope, to_real

_BISECTIONS = 50  # to the last digits of a level


class Prior(eqx.Module):
    """Independent parameters, by name: Prior(a=Uniform(0, 10), b=scipy.stats.gamma(2.0)).

    Raises ValueError for a measure of more than one dimension.

    >>> import jax
    >>> from owlfi.measures import Exponential, Uniform
    >>> prior = Prior(location=Uniform(0, 10), scale=Exponential(1.0))
    >>> prior.names, prior.sample(jax.random.key(0), 100).shape
    (('location', 'scale'), (100, 2))
    """

    names: tuple[str, ...] = eqx.field(static=True)
    marginals: tuple[Measure, ...]

    def __init__(self, **marginals: Any):
        if not marginals:
            raise ValueError("prior has no parameters; give Prior(name=measure, ...)")
        self.names = tuple(marginals)
        self.marginals = tuple(as_measure(marginal) for marginal in marginals.values())
        for name, marginal in zip(self.names, self.marginals, strict=True):
            if marginal.dim != 1:
                raise ValueError(
                    f"the prior of {name} must be a measure on the line, got dimension "
                    f"{marginal.dim}; give each parameter a name and a measure of its own"
                )

    def __repr__(self) -> str:
        return write_arguments(self, (), **dict(zip(self.names, self.marginals, strict=True)))

    def _repr_html_(self) -> str:
        return html_table("Prior", ("parameter", "prior"), self.table())

    def table(self) -> list[tuple[str, str]]:
        """Each name with its measure, as text."""
        return [(name, repr(m)) for name, m in zip(self.names, self.marginals, strict=True)]

    @property
    def joint(self) -> Product:
        """The measure of all parameters, side by side."""
        return Product(*self.marginals)

    def sample(self, key: Key[Array, ""], n: int) -> Float[Array, "n p"]:
        """n independent draws, a column for each name."""
        return self.joint.sample(key, n)

    def log_density(self, theta: Any) -> Float[Array, "..."]:
        """The log density at theta (..., p), -inf outside the support."""
        theta = as_array("theta", theta)
        if theta.shape[-1:] != (len(self.names),):
            raise ValueError(
                f"theta must have {len(self.names)} columns ({', '.join(self.names)}), "
                f"got shape {theta.shape}"
            )
        return self.joint.log_density(theta)

    @property
    def bounds(self) -> Ends:
        """The lower and the upper end of each parameter, (p,) each, perhaps infinite."""
        return self.joint.support

    def starts(self, key: Key[Array, ""], n: int) -> Float[Array, "n p"]:
        """n points spread evenly over the prior, where searches may begin."""
        return sobol(key, n, self.joint)

    def from_uniform(self, v: Any) -> Float[Array, "n p"]:
        """Parameters (n, p) from points of the unit cube, by the quantiles of each."""
        return self.joint.from_uniform(v)

    def to_uniform(self, theta: Any) -> Float[np.ndarray, "n p"]:
        """The points of the unit cube whose quantiles are theta (n, p), by bisection."""
        wanted = np.asarray(as_rows("theta", theta, len(self.names)))
        low, high = np.zeros(wanted.shape), np.ones(wanted.shape)
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            below = np.asarray(self.from_uniform(middle)) <= wanted
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return (low + high) / 2

    def widths(self) -> Float[Array, " p"]:
        """How wide each parameter is: its interquartile range."""
        low, high = np.asarray(self._quartiles())
        return as_jax(high - low)

    def real_widths(self) -> Float[Array, " p"]:
        """The same on the real line."""
        low, high = np.asarray(to_real(self._quartiles(), self.bounds))
        return as_jax(high - low)

    def _quartiles(self) -> Float[Array, "2 p"]:
        return self.joint.from_uniform(np.repeat([[0.25], [0.75]], len(self.names), axis=1))

    def real_log_density(self, v: Float[Array, "... p"]) -> Float[Array, "..."]:
        """The log density of the parameters mapped to the real line, v = to_real(theta, bounds)."""
        ends = self.bounds
        return self.log_density(from_real(v, ends)) + log_slope(v, ends).sum(-1)

    @property
    def runtime(self) -> Runtime:
        """Where its densities can be computed."""
        return choose_runtime(on_host=not self.joint.traceable_density)

    def check_continuous(self, method: str) -> None:
        """Raises ValueError where a parameter takes separate values, which have no gradient."""
        pairs = zip(self.names, self.marginals, strict=True)
        discrete = [name for name, marginal in pairs if _is_discrete(marginal)]
        if discrete:
            raise ValueError(
                f"{method} needs continuous parameters, but the prior of {', '.join(discrete)} is "
                "discrete; hold it with simulator.fix(...), once for each value, or use "
                "rejection_abc"
            )

    def check_differentiable(self, method: str, instead: str) -> None:
        """Raises ValueError where scipy computes a density, which has no gradient then."""
        pairs = zip(self.names, self.marginals, strict=True)
        opaque = [name for name, marginal in pairs if not marginal.traceable_density]
        if opaque:
            raise ValueError(
                f"{method} needs the derivatives of the prior, but that of {', '.join(opaque)} is "
                f"computed by scipy; give a measure of owlfi, or use {instead}"
            )

    def of(self, names: tuple[str, ...]) -> "Prior":
        """The prior of some of the parameters, in the order given."""
        known = dict(zip(self.names, self.marginals, strict=True))
        return Prior(**{name: known[name] for name in names})


log_prior = compile_where_it_runs(Prior.real_log_density)
"""The same as a program of its own, or on the host."""


def as_prior(prior: Any) -> Prior:
    """Raises ValueError for anything else."""
    return as_kind("prior", prior, Prior, "a Prior(name=measure, ...)")


def _is_discrete(measure: Measure) -> bool:
    parts = measure.components if isinstance(measure, Mixture) else (measure,)
    return any(isinstance(part, DiscreteFamily | Empirical) for part in parts)
