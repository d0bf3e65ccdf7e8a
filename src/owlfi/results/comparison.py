"""Which of several models is nearest to the data."""

from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from owlfi._tools.display import join
from owlfi.results.files import register
from owlfi.results.result import Result


@register
@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Result):
    """The squared MMD of each model at its estimate, and which differences the data can tell.

    `comparison["a"]` is the squared MMD of the model a; `names` are those of the models.

    >>> import jax.numpy as jnp
    >>> p_values = jnp.array([[1.0, 0.01, 0.4], [0.01, 1.0, 0.02], [0.4, 0.02, 1.0]])
    >>> numbers = {"errors": jnp.full(3, 0.01), "p_values": p_values}
    >>> found = Comparison(("a", "b", "c"), jnp.array([0.03, 0.09, 0.02]), **numbers)
    >>> found.ranking
    ('c', 'a', 'b')
    >>> print(found.verdict)
    c is nearest to the data, but they cannot tell it from a (p = 0.4).
    Farther than it: b (p = 0.02).
    """

    names: tuple[str, ...]
    squared_mmd: Float[Array, " p"]
    """Of each model at its best parameters, an estimate without bias: it may be below 0."""
    errors: Float[Array, " p"]
    """Standard errors of these."""
    p_values: Float[Array, "p p"]
    """Of the hypothesis that two models are equally near, for each pair, adjusted for all pairs."""
    level: float = 0.05
    calls: int = 0
    about: dict[str, Any] = field(default_factory=dict)
    """How it was made, and the estimates of each model."""
    warnings: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> float:
        return float(self.squared_mmd[self._place(name)])

    @property
    def ranking(self) -> tuple[str, ...]:
        """The models, the nearest first; the `verdict` says where the data cannot tell."""
        return tuple(self.names[i] for i in np.argsort(np.asarray(self.squared_mmd)))

    def p_value(self, first: str, second: str) -> float:
        """Of the hypothesis that two models are equally near to the data."""
        return float(self.p_values[self._place(first), self._place(second)])

    @property
    def undecided(self) -> tuple[str, ...]:
        """Those that the data cannot tell from the nearest."""
        best, *others = self.ranking
        return tuple(name for name in others if self.p_value(best, name) > self.level)

    @property
    def verdict(self) -> str:
        """What the data say, in words."""
        best, *others = self.ranking
        told = {name: f"{name} (p = {self.p_value(best, name):.2g})" for name in others}
        open_, clear = self.undecided, [told[name] for name in others if name not in self.undecided]
        first = f"{best} is nearest to the data"
        if open_:
            first += f", but they cannot tell it from {', '.join(told[name] for name in open_)}"
        return f"{first}." + (f" Farther than it: {', '.join(clear)}." if clear else "")

    def _table(self) -> list[list[str]]:
        best, numbers = self.ranking[0], np.asarray(self.errors)
        rows = [
            [
                name,
                f"{self[name]:.4g}",
                f"{numbers[self._place(name)]:.2g}",
                "" if name == best else f"{self.p_value(best, name):.3g}",
            ]
            for name in self.ranking
        ]
        return [["model", "squared MMD", "std. error", "p against nearest"], *rows]

    def _lines(self) -> list[str]:
        return [*super()._lines(), self.verdict, self._cost()]

    def _facts(self) -> list[str]:
        written = [f"{name}: {self[name]:.3g}" for name in self.ranking]
        return [
            join(written),
            *([f"cannot tell {', '.join(self.undecided)}"] * bool(self.undecided)),
        ]


def adjust_pairs(p_values: Float[np.ndarray, "p p"]) -> Float[np.ndarray, "p p"]:
    """Those of Holm (1979): some pair of equals is told apart with at most the level.

    >>> adjust_pairs(np.array([[1.0, 0.01, 0.02], [0.01, 1.0, 0.9], [0.02, 0.9, 1.0]]))[0]
    array([1.  , 0.03, 0.04])
    """
    found = np.ones_like(p_values)
    pairs = sorted(combinations(range(len(p_values)), 2), key=lambda pair: p_values[pair])
    least = 0.0
    for rank, (i, j) in enumerate(pairs):
        least = min(1.0, max(least, (len(pairs) - rank) * float(p_values[i, j])))
        found[i, j] = found[j, i] = least
    return found
