"""Whether data of the fitted model look like those observed."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Array, Float

from owlfi._tools.checks import as_count
from owlfi._tools.display import count, join
from owlfi.results.files import register
from owlfi.results.result import Result

_FAR = 100.0  # standard deviations
_WORST = 3  # rows and columns that are listed


@register
@dataclass(frozen=True, eq=False, repr=False)
class PredictiveCheck(Result):
    """Statistics of the observed data beside those of data that the fitted model gives.

    `check["squared MMD"]` is the p-value of a statistic: small where replicated data rarely have
    one as extreme. `names` are those of the statistics.

    >>> import jax.numpy as jnp
    >>> replicated, x = jnp.linspace(0.0, 0.9, 10)[:, None], jnp.zeros((2, 1))
    >>> numbers = {"observed": jnp.ones(1), "replicated": replicated, "p_values": jnp.ones(1) / 11}
    >>> PredictiveCheck(("largest",), **numbers, x=x, replicates=x[None], row_scores=jnp.ones(2))
    PredictiveCheck(largest: p = 0.0909; 10 replicates; 0 simulator calls)
    """

    names: tuple[str, ...]
    observed: Float[Array, " p"]
    """Each statistic of the observed data."""
    replicated: Float[Array, "b p"]
    p_values: Float[Array, " p"]
    x: Float[Array, "n d"]
    """The rows that were compared: those observed, or some of many."""
    replicates: Float[Array, "r n d"]
    """Some of the replicated data sets, for pictures."""
    row_scores: Float[Array, " n"]
    """The witness function at each row, in standard deviations over replicates.

    Far above 0 where data are, and the model gives too few; far below 0 the other way round.
    """
    column_p_values: Float[Array, " d"] | None = None
    """Of the squared MMD of each column on its own."""
    calls: int = 0
    about: dict[str, Any] = field(default_factory=dict)
    """How it was made: names of the columns, numbers of the rows, replicates that failed."""
    warnings: tuple[str, ...] = ()
    never_empty: ClassVar = ("replicated", "replicates")

    def __getitem__(self, name: str) -> float:
        return float(self.p_values[self._place(name)])

    @property
    def columns(self) -> list[str]:
        """The names of the columns of the data."""
        return self.about.get("columns", [f"column_{j}" for j in range(self.x.shape[1])])

    def worst_rows(self, most: int = _WORST) -> list[tuple[int, float]]:
        """The numbers of the observed rows that fit worst, with their scores."""
        scores = np.asarray(self.row_scores)
        rows = self.about.get("rows", range(len(scores)))
        order = np.argsort(-np.abs(scores))[: as_count("most", most, 0)]
        return [(int(rows[i]), float(scores[i])) for i in order]

    def worst_columns(self, most: int = _WORST) -> list[tuple[str, float]]:
        """The columns that fit worst, with their p-values."""
        most = as_count("most", most, 0)
        if self.column_p_values is None:
            return []
        values = np.asarray(self.column_p_values)
        return [(self.columns[j], float(values[j])) for j in np.argsort(values)[:most]]

    def _table(self) -> list[list[str]]:
        low, middle, high = np.quantile(np.asarray(self.replicated), [0.05, 0.5, 0.95], axis=0)
        rows = [
            [name, *(f"{number:.4g}" for number in numbers)]
            for name, *numbers in zip(
                self.names, np.asarray(self.observed), low, middle, high, self.p_values, strict=True
            )
        ]
        return [["statistic", "observed", "5%", "median", "95%", "p-value"], *rows]

    def _lines(self) -> list[str]:
        worst = self.worst_columns() if self.x.shape[1] > 1 else []
        columns = ", ".join(f"{name} (p = {p:.2g})" for name, p in worst)
        rows = ", ".join(f"{row} ({_write_score(score)})" for row, score in self.worst_rows())
        return [
            *super()._lines(),
            *([f"Columns that fit worst: {columns}"] if columns else []),
            f"Rows that fit worst: {rows}",
            f"{count(len(self.replicated), 'replicate')}; {self._cost()}",
        ]

    def _facts(self) -> list[str]:
        values = zip(self.names, np.asarray(self.p_values), strict=True)
        return [join([f"{name}: p = {p:.3g}" for name, p in values])]

    def _notes(self) -> list[str]:
        return [count(len(self.replicated), "replicate")]


def _write_score(score: float) -> str:
    """Where no replicate has a row nearby, there is no standard deviation to speak of."""
    return f"{score:+.1f} sd" if abs(score) < _FAR else "where no replicate is"
