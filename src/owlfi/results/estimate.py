"""A point estimate with its standard errors."""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float
from scipy.stats import norm

from owlfi.results.files import register, save
from owlfi.results.tables import as_level, format_table


@register
class Estimate(eqx.Module):
    """A point estimate with its standard errors, and what it cost.

    >>> estimate = Estimate(("a",), jnp.array([2.0]), jnp.array([[0.01]]), jnp.array(0.001))
    >>> print(estimate.summary())
    parameter  estimate  std. error     5%    95%
    a                 2         0.1  1.836  2.164
    """

    names: tuple[str, ...] = eqx.field(static=True)
    theta: Float[Array, " p"]
    covariance: Float[Array, "p p"]
    squared_mmd: Float[Array, ""]
    calls: int = eqx.field(static=True, default=0)
    """Rows that the simulator computed, y_i = G(theta, u_i)."""
    gradient_calls: int = eqx.field(static=True, default=0)
    """Derivatives of such a row by one parameter, computed beside."""
    converged: bool = eqx.field(static=True, default=True)
    trace_thetas: Float[Array, "t p"] | None = None
    """The best theta after each evaluation of the searches that led to the estimate."""
    trace_values: Float[Array, " t"] | None = None

    @property
    def standard_errors(self) -> Float[Array, " p"]:
        """The square roots of the variances."""
        return jnp.sqrt(jnp.diag(self.covariance))

    def interval(self, level: float = 0.9) -> tuple[Float[Array, " p"], Float[Array, " p"]]:
        """Both ends of the normal interval that covers each parameter with this probability."""
        reach = norm.ppf(0.5 + as_level(level) / 2) * self.standard_errors
        return self.theta - reach, self.theta + reach

    def summary(self) -> str:
        """A table: a row for each parameter."""
        columns = [self.theta, self.standard_errors, *self.interval(0.9)]
        return format_table(self.names, ("estimate", "std. error", "5%", "95%"), columns)

    def save(self, path: Any) -> Path:
        """Write a file that `owlfi.load` reads."""
        return save(self, path)
