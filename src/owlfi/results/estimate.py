"""A point estimate with its standard errors."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Array, Float, Key
from scipy.special import ndtr, ndtri

from owlfi._tools.arrays import as_jax
from owlfi._tools.checks import as_count, as_probability
from owlfi._tools.keys import numpy_generator
from owlfi.results.distribution import Distribution
from owlfi.results.files import register
from owlfi.results.tables import table_rows, write_numbers

_UNITS = ndtri(0.95)  # standard errors of an end of a 90% interval


@register
@dataclass(frozen=True, eq=False, repr=False)
class Estimate(Distribution):
    """A point estimate with its standard errors, and what it cost.

    `estimate["a"]` is the number estimated for the parameter a.

    >>> import jax.numpy as jnp
    >>> estimate = Estimate(("a",), jnp.array([2.0]), jnp.array([[0.01]]), jnp.array(0.001), 512)
    >>> estimate
    Estimate(minimum distance; a: 2 ± 0.1; 512 simulator calls)
    >>> estimate["a"]
    2.0
    >>> print(estimate.summary())
    parameter  estimate  std. error     5%    95%
    a                 2         0.1  1.836  2.164
    """

    names: tuple[str, ...]
    theta: Float[Array, " p"]
    covariance: Float[Array, "p p"]
    squared_mmd: Float[Array, ""]
    calls: int = 0
    """Rows that the simulator computed, y_i = G(theta, u_i)."""
    gradient_calls: int = 0
    """Derivatives of such a row by one parameter, computed beside."""
    converged: bool = True
    trace_thetas: Float[Array, "t p"] | None = None
    """The best theta after each evaluation of the searches that led to the estimate."""
    trace_values: Float[Array, " t"] | None = None
    below: Float[Array, " p"] | None = None
    """How far a 90% interval extends downwards, where it is no normal one."""
    above: Float[Array, " p"] | None = None
    """The same upwards."""
    ends: Float[Array, "2 p"] | None = None
    """Of the prior, which no interval exceeds."""
    mass: float | None = None
    """The share of the observations that the model explains, of the efficient discrepancy."""
    mass_error: float | None = None
    """Its standard error."""
    misfit: float | None = None
    """The chance of so large a difference between data and model, were the model right."""
    chances: Float[Array, " n"] | None = None
    """Of each observation: how probable rows at least as far from the model are."""
    left_out: Float[Array, " n"] | None = None
    """1 for observations that do not fit, by their chances, and have no part in the estimate."""
    influence: Float[Array, "p n"] | None = None
    """By how many standard errors each observation moves each parameter."""
    about: dict[str, Any] = field(default_factory=lambda: {"method": "minimum distance"})
    """How it was made."""
    warnings: tuple[str, ...] = ()
    known_together: ClassVar = (
        ("mass", "mass_error", "misfit"),
        ("chances", "left_out", "influence"),
    )

    def __getitem__(self, name: str) -> float:
        return float(self.theta[self._place(name)])

    @property
    def standard_errors(self) -> Float[Array, " p"]:
        """The square roots of the variances."""
        return as_jax(np.sqrt(np.diag(self.covariance)))

    @property
    def outliers(self) -> tuple[int, ...]:
        """The numbers of the observations that do not fit, from 0 on."""
        left_out = () if self.left_out is None else np.flatnonzero(np.asarray(self.left_out))
        return tuple(map(int, left_out))

    def interval(self, level: Any = 0.9) -> tuple[Float[Array, " p"], Float[Array, " p"]]:
        """Both ends of the interval that covers each parameter with this probability.

        A normal interval, or one from the profile of the squared MMD where it is no parabola.
        """
        units = np.full(len(self.names), ndtri(0.5 + as_probability("level", level) / 2))
        return as_jax(self.at_scores(-units)), as_jax(self.at_scores(units))

    @property
    def center(self) -> Float[np.ndarray, " p"]:
        return np.asarray(self.theta)

    @property
    def spread(self) -> Float[np.ndarray, " p"]:
        return np.asarray(self.standard_errors)

    def level_of(self, theta: Any) -> Float[np.ndarray, " p"]:
        return ndtr(self.scores_of(theta))

    def at_scores(self, scores: Float[np.ndarray, " p"]) -> Float[np.ndarray, " p"]:
        return self._keep_inside(super().at_scores(scores))

    def resample(self, key: Key[Array, ""], n: int) -> Float[np.ndarray, "n p"]:
        """n normal draws around the estimate; NaN where its errors are not finite."""
        n, covariance = as_count("n", n), np.asarray(self.covariance)
        if not np.isfinite(covariance).all():
            return np.full((n, len(self.names)), np.nan)
        values, vectors = np.linalg.eigh(covariance)
        normal = numpy_generator(key).standard_normal((n, len(self.names)))
        away = normal * np.sqrt(np.maximum(values, 0.0))[None] @ vectors.T
        return self._keep_inside(self.center[None] + away)

    def _keep_inside(self, theta: Float[np.ndarray, "... p"]) -> Float[np.ndarray, "... p"]:
        return theta if self.ends is None else np.clip(theta, *np.asarray(self.ends))

    def _sides(self, direction: Float[np.ndarray, " p"]) -> Float[np.ndarray, " p"]:
        below, above = (
            self.spread if side is None else np.asarray(side) / _UNITS
            for side in (self.below, self.above)
        )
        return np.where(direction < 0, below, above)

    def _table(self) -> list[list[str]]:
        low, high = self.interval(0.9)
        columns = {"estimate": self.theta, "std. error": self.standard_errors}
        return table_rows(self.names, columns | {"5%": low, "95%": high})

    def _facts(self) -> list[str]:
        return [write_numbers(self.names, self.theta, self.standard_errors)]

    def _lines(self) -> list[str]:
        return [*super()._lines(), *self._describe_fit()]

    def _describe_fit(self) -> list[str]:
        """What the efficient discrepancy knows of the observations."""
        if self.mass is None or self.misfit is None:
            return []
        explained = f"The model explains {self.mass:.1%} (± {self.mass_error:.1%}) of the data"
        return [f"{explained}; chance of the misfit {self.misfit:.2g}."]

    def _notes(self) -> list[str]:
        return [] if self.converged else ["not converged"]
