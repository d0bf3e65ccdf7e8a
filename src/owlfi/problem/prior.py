"""What is believed of the parameters before the data, independent or in groups that are not."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from owlfi._tools.arrays import as_jax
from owlfi._tools.checks import as_array, as_count, as_kind, as_names, as_rows
from owlfi._tools.display import html_table, write_arguments
from owlfi._tools.real_line import Ends, from_real, log_slope, to_real
from owlfi.measures import DiscreteFamily, Empirical, Measure, Mixture, Product, Uniform, as_measure
from owlfi.points.sequences import sobol
from owlfi.problem.checks import as_parameters
from owlfi.problem.jax_or_host import Runtime, choose_runtime, compile_where_it_runs

_POINTS = 1024  # that quantiles of dependent parameters are taken of
_TAIL = 0.02


class Prior(eqx.Module):
    """Independent parameters, by name: Prior(a=Uniform(0, 10), b=scipy.stats.gamma(2.0)).

    `Prior.joint(names, measure)` is for parameters that depend on each other.

    Raises ValueError for a measure of more than one dimension.

    >>> import jax
    >>> from owlfi.measures import Exponential, Uniform
    >>> prior = Prior(location=Uniform(0, 10), scale=Exponential(1.0))
    >>> prior.names, prior.sample(jax.random.key(0), 100).shape
    (('location', 'scale'), (100, 2))
    """

    names: tuple[str, ...] = eqx.field(static=True)
    marginals: tuple[Measure, ...]
    """Of each parameter, or of each group of them that depend on each other."""

    def __init__(self, **marginals: Any):
        if not marginals:
            raise ValueError("prior has no parameters; give Prior(name=measure, ...)")
        self.names = as_parameters(marginals)
        self.marginals = tuple(
            as_measure(each, name=f"the prior of {name}") for name, each in marginals.items()
        )
        for name, marginal in zip(self.names, self.marginals, strict=True):
            if marginal.dim != 1:
                raise ValueError(
                    f"the prior of {name} must be a measure on the line, got dimension "
                    f"{marginal.dim}; give each parameter a name and a measure of its own, or "
                    "Prior.joint(names, measure) for those that depend on each other"
                )

    @classmethod
    def joint(cls, names: Any, measure: Any) -> "Prior":
        """Parameters that depend on each other.

        measure: one on as many dimensions as there are names: a `MultivariateNormal`, a `Mixture`
            of them, a `LogDensity` inside bounds, or the draws of a former posterior as
            `Smoothed(draws)`, as `MultivariateNormal.of_draws(draws)`, or, for ABC alone, as
            an `Empirical`.

        Raises ValueError for another number of names.

        >>> import jax
        >>> from owlfi.measures import MultivariateNormal
        >>> normal = MultivariateNormal([0.0, 1.0], [[1.0, 0.9], [0.9, 1.0]])
        >>> prior = Prior.joint(["slope", "offset"], normal)
        >>> prior.names, prior.sample(jax.random.key(0), 100).shape
        (('slope', 'offset'), (100, 2))
        """
        known, whole = as_names("names", names), as_measure(measure)
        if len(set(known)) != whole.dim or len(known) != whole.dim:
            raise ValueError(
                f"names must be {whole.dim} different ones, one for each dimension of the "
                f"measure, got {known}"
            )
        return cls(**{name: Uniform() for name in known})._with(whole)

    def beside(self, other: "Prior") -> "Prior":
        """The parameters of both, independent of each other.

        Raises ValueError for names that both have.
        """
        shared = sorted(set(self.names) & set(as_prior(other).names))
        if shared:
            raise ValueError(f"both priors have the parameters {', '.join(shared)}; rename them")
        names = {name: Uniform() for name in (*self.names, *other.names)}
        return Prior(**names)._with(*self.marginals, *other.marginals)

    def _with(self, *marginals: Measure) -> "Prior":
        return eqx.tree_at(lambda prior: prior.marginals, self, marginals)

    @property
    def groups(self) -> list[tuple[tuple[str, ...], Measure]]:
        """The names of each group of parameters, and its measure."""
        slices = self.measure.slices
        pairs = zip(slices, self.measure.parts, strict=True)
        return [(self.names[own], part) for own, part in pairs]

    def __repr__(self) -> str:
        named = {"_".join(names): measure for names, measure in self.groups}
        if len(named) == len(self.names):
            return write_arguments(self, (), **named)
        parts = [f"{', '.join(names)}: {measure!r}" for names, measure in self.groups]
        return f"Prior({'; '.join(parts)})"

    def _repr_html_(self) -> str:
        return html_table("Prior", ("parameter", "prior"), self.table())

    def table(self) -> list[tuple[str, str]]:
        """Each name, or group of names, with its measure, as text."""
        return [(", ".join(names), repr(measure)) for names, measure in self.groups]

    @property
    def measure(self) -> Product:
        """The measure of all parameters, side by side."""
        return Product(*self.marginals)

    def sample(self, key: Key[Array, ""], n: int) -> Float[Array, "n p"]:
        """n independent draws, a column for each name."""
        return self.measure.sample(key, as_count("n", n))

    def log_density(self, theta: Any) -> Float[Array, "..."]:
        """The log density at theta (..., p), -inf outside the support."""
        theta = as_array("theta", theta)
        if theta.shape[-1:] != (len(self.names),):
            raise ValueError(
                f"theta must have {len(self.names)} columns ({', '.join(self.names)}), "
                f"got shape {theta.shape}"
            )
        return self.measure.log_density(theta)

    def excludes(self, theta: Float[Array, "n p"]) -> Bool[np.ndarray, " n"]:
        """Which parameters inside of the bounds have density 0 all the same."""
        return self.measure.excludes(theta)

    @property
    def bounds(self) -> Ends:
        """The lower and the upper end of each parameter, (p,) each, perhaps infinite."""
        return self.measure.support

    def starts(self, key: Key[Array, ""], n: int) -> Float[Array, "n p"]:
        """n points spread evenly over the prior, where searches may begin."""
        return sobol(key, as_count("n", n), self.measure)

    def from_uniform(self, v: Any) -> Float[Array, "n p"]:
        """Parameters (n, p) from points of the unit cube, by the quantiles of each."""
        return self.measure.from_uniform(v)

    def to_uniform(self, theta: Any) -> Float[np.ndarray, "n p"]:
        """The points of the unit cube whose quantiles are theta (n, p)."""
        return self.measure.to_levels(np.asarray(as_rows("theta", theta, len(self.names))))

    def widths(self) -> Float[Array, " p"]:
        """How wide each parameter is: its interquartile range."""
        low, high = np.asarray(self._quantiles(0.25, 0.75))
        return as_jax(high - low)

    def real_widths(self) -> Float[Array, " p"]:
        """The same on the real line."""
        low, high = np.asarray(to_real(self._quantiles(0.25, 0.75), self.bounds))
        return as_jax(high - low)

    def pull_in(self, theta: Float[Array, " p"]) -> Float[Array, " p"]:
        """The nearest that is out of the prior's tails, where there is room on both sides."""
        ends = self._quantiles(_TAIL, 1 - _TAIL)
        return as_jax(np.clip(np.asarray(theta), *np.asarray(ends)))

    def _quantiles(self, *levels: float) -> Float[Array, "q p"]:
        if len(self.groups) == len(self.names):
            return self.measure.from_uniform(np.repeat([[at] for at in levels], len(self.names), 1))
        points = sobol(jax.random.key(0), _POINTS, self.measure)
        return as_jax(np.quantile(np.asarray(points), levels, axis=0))

    def real_log_density(self, v: Float[Array, "... p"]) -> Float[Array, "..."]:
        """The log density of the parameters mapped to the real line, v = to_real(theta, bounds)."""
        ends = self.bounds
        return self.log_density(from_real(v, ends)) + log_slope(v, ends).sum(-1)

    @property
    def runtime(self) -> Runtime:
        """Where its densities can be computed."""
        return choose_runtime(on_host=not self.measure.traceable_density)

    def check_continuous(self, method: str) -> None:
        """Raises ValueError where a parameter takes separate values, which have no gradient."""
        discrete = [", ".join(names) for names, part in self.groups if _is_discrete(part)]
        drawn = [", ".join(names) for names, part in self.groups if isinstance(part, Empirical)]
        if drawn:
            raise ValueError(
                f"{method} needs continuous parameters, but the prior of {', '.join(drawn)} is "
                "discrete: an Empirical takes its own rows alone; give Smoothed(draws), or use "
                "rejection_abc without adjust"
            )
        if discrete:
            raise ValueError(
                f"{method} needs continuous parameters, but the prior of {', '.join(discrete)} is "
                "discrete; hold it with simulator.fix(...), once for each value, or use "
                "rejection_abc without adjust"
            )

    def check_differentiable(self, method: str, instead: str) -> None:
        """Raises ValueError where scipy computes a density, which has no gradient then."""
        opaque = [", ".join(names) for names, part in self.groups if not part.traceable_density]
        if opaque:
            raise ValueError(
                f"{method} needs the derivatives of the prior, but that of {', '.join(opaque)} is "
                f"computed by scipy; give a measure of owlfi, or use {instead}"
            )

    def of(self, names: tuple[str, ...]) -> "Prior":
        """The prior of some of the parameters, in the order given.

        Raises ValueError for a part of parameters that depend on each other, or in another order.
        """
        names = as_names("names", names)
        groups, taken, left = self.groups, list[Measure](), names
        while left:
            group, measure = next((g for g in groups if g[0][:1] == left[:1]), ((), None))
            if measure is None or left[: len(group)] != group:
                whole = next((g for g, _ in groups if left[0] in g), ())
                raise ValueError(
                    f"the prior of {', '.join(whole) or left[0]} is one of all of them, in this "
                    f"order, where {', '.join(names)} are asked for; give a prior of these"
                )
            taken, left = [*taken, measure], left[len(group) :]
        return Prior(**{name: Uniform() for name in names})._with(*taken)


log_prior = compile_where_it_runs(Prior.real_log_density)
"""The same as a program of its own, or on the host."""


def as_prior(prior: Any) -> Prior:
    """Raises ValueError for anything else."""
    return as_kind("prior", prior, Prior, "a Prior(name=measure, ...)")


def _is_discrete(measure: Measure) -> bool:
    parts = measure.components if isinstance(measure, Mixture) else (measure,)
    return any(isinstance(part, DiscreteFamily | Empirical) for part in parts)
