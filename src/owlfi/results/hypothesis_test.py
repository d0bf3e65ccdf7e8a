"""The result of a test."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

from jaxtyping import Array, Float

from owlfi._tools.display import count, join
from owlfi.results.files import register
from owlfi.results.result import Result
from owlfi.results.tables import align, table_rows


@register
@dataclass(frozen=True, eq=False, repr=False)
class HypothesisTest(Result):
    """A statistic, how it compares with the null hypothesis, and what that took to know.

    `test["a"]` is the parameter a of the model that was tested, as estimated or as given.

    >>> import jax.numpy as jnp
    >>> test = HypothesisTest(0.02, 0.01, 0.015, 0.05, jnp.array([0.005, 0.01, 0.015]))
    >>> test.rejected
    True
    >>> test
    HypothesisTest(statistic 0.02; p = 0.01: rejected at level 0.05; 0 simulator calls)
    >>> print(test.summary())
    p = 0.01: rejected at level 0.05
    statistic 0.02, critical value 0.015, 3 null statistics
    """

    statistic: float
    p_value: float
    critical_value: float
    """What the statistic must exceed; the same decision as p ≤ level."""
    level: float
    null: Float[Array, " b"]
    """Statistics under the null hypothesis, +∞ where a fit failed."""
    names: tuple[str, ...] = ()
    theta: Float[Array, " p"] | None = None
    """The estimate of the parameters, where a model was fitted."""
    null_thetas: Float[Array, "b p"] | None = None
    calls: int = 0
    """Rows that the simulator computed, y_i = G(theta, u_i)."""
    about: dict[str, Any] = field(default_factory=dict)
    """How it was made: failed fits, bandwidths, ..."""
    warnings: tuple[str, ...] = ()
    known_together: ClassVar = (("names", "theta"),)

    def __getitem__(self, name: str) -> float:
        self._place(name)
        return self._parameters()[name]

    @property
    def rejected(self) -> bool:
        return self.p_value <= self.level

    def _lines(self) -> list[str]:
        """The decision in words, the numbers behind it, and the estimate."""
        lines = [
            self._decision(),
            f"statistic {self.statistic:.4g}, critical value {self.critical_value:.4g}, "
            f"{len(self.null)} null statistics",
        ]
        if self.theta is not None and self.names:
            heading = "given" if self.about.get("method") == "simple" else "estimate"
            lines.append(align(table_rows(self.names, {heading: self.theta})))
        if self.about.get("failed"):
            failed = count(self.about["failed"], "fit")
            lines.append(f"{failed} to replicates failed: +∞ among the null statistics")
        if self.calls:
            lines.append(f"{self.calls:,} simulator calls")
        return lines

    def _table(self) -> list[list[str]]:
        numbers = {
            "statistic": self.statistic,
            "critical value": self.critical_value,
            "p-value": self.p_value,
            "level": self.level,
        }
        written = [[name, f"{number:.4g}"] for name, number in numbers.items()]
        fitted = [[name, f"{value:.4g}"] for name, value in self._parameters().items()]
        return [["", "rejected" if self.rejected else "not rejected"], *written, *fitted]

    def _facts(self) -> list[str]:
        written = [f"{name}: {value:.4g}" for name, value in self._parameters().items()]
        fitted = [join(written)] if written else []
        return [f"statistic {self.statistic:.4g}", self._decision(), *fitted]

    def _parameters(self) -> dict[str, float]:
        """Of the model that was tested; none where two samples were."""
        values = () if self.theta is None else map(float, self.theta)
        return dict(zip(self.names, values, strict=True))

    def _decision(self) -> str:
        decision = "rejected" if self.rejected else "not rejected"
        return f"p = {self.p_value:.3g}: {decision} at level {self.level:g}"
