"""The result of a test."""

from pathlib import Path
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from owlfi.results.files import register, save
from owlfi.results.tables import format_table


@register
class HypothesisTest(eqx.Module):
    """A statistic, how it compares with the null hypothesis, and what that took to know.

    >>> import jax.numpy as jnp
    >>> test = HypothesisTest(0.02, 0.01, 0.015, 0.05, jnp.array([0.005, 0.01, 0.015]))
    >>> test.rejected
    True
    >>> print(test.summary())
    p = 0.01: rejected at level 0.05
    statistic 0.02, critical value 0.015, 3 null statistics
    """

    statistic: float = eqx.field(static=True)
    p_value: float = eqx.field(static=True)
    critical_value: float = eqx.field(static=True)
    """What the statistic must exceed; the same decision as p ≤ level."""
    level: float = eqx.field(static=True)
    null: Float[Array, " b"]
    """Statistics under the null hypothesis, +∞ where a fit failed."""
    names: tuple[str, ...] = eqx.field(static=True, default=())
    theta: Float[Array, " p"] | None = None
    """The estimate of the parameters, where a model was fitted."""
    null_thetas: Float[Array, "b p"] | None = None
    calls: int = eqx.field(static=True, default=0)
    """Rows that the simulator computed, y_i = G(theta, u_i)."""
    about: dict[str, Any] = eqx.field(static=True, default_factory=dict)
    """How it was made: failed fits, bandwidths, ..."""

    @property
    def rejected(self) -> bool:
        return self.p_value <= self.level

    def summary(self) -> str:
        """The decision in words, the numbers behind it, and the estimate."""
        decision = "rejected" if self.rejected else "not rejected"
        lines = [
            f"p = {self.p_value:.3g}: {decision} at level {self.level:g}",
            f"statistic {self.statistic:.4g}, critical value {self.critical_value:.4g}, "
            f"{len(self.null)} null statistics",
        ]
        if self.theta is not None and self.names:
            heading = "given" if self.about.get("method") == "simple" else "estimate"
            lines.append(format_table(self.names, (heading,), [self.theta]))
        if self.about.get("failed"):
            lines.append(f"{self.about['failed']} fits failed and count as +∞")
        if self.calls:
            lines.append(f"{self.calls:,} simulator calls")
        return "\n".join(lines)

    def save(self, path: Any) -> Path:
        """Write a file that `owlfi.load` reads."""
        return save(self, path)
