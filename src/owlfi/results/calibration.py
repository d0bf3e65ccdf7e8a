"""How often a method was right on data whose parameters are known."""

from dataclasses import dataclass, field
from math import ceil, floor
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from owlfi._tools.arrays import as_jax
from owlfi._tools.checks import as_probability
from owlfi._tools.display import count, join
from owlfi.results.distribution import Distribution, as_distribution
from owlfi.results.files import register
from owlfi.results.result import Result
from owlfi.results.uniformity import binomial_band


@register
@dataclass(frozen=True, eq=False, repr=False)
class Calibration(Result):
    """What a method found on n data sets, beside the parameters that they were simulated at.

    `calibration["a"]` is the levels (n,) of the truths of the parameter a, uniform on (0, 1) where
    the method is calibrated.

    >>> import jax.numpy as jnp
    >>> levels = jnp.linspace(0.005, 0.995, 100)[:, None]
    >>> numbers = {"scores": 6 * levels - 3, "centers": levels, "spreads": levels}
    >>> found = Calibration(("a",), levels, levels, joint=levels[:, 0], **numbers)
    >>> found
    Calibration(a: 90% cover 90%; 100 data sets; 0 simulator calls)
    >>> found.coverage(0.5)
    Array([0.5], dtype=float64)
    """

    names: tuple[str, ...]
    thetas: Float[Array, "n p"]
    """The truths."""
    levels: Float[Array, "n p"]
    """The probability that the method gave to smaller values than the truth."""
    scores: Float[Array, "n p"]
    """How many of the method's standard deviations the truth lies above its estimate."""
    centers: Float[Array, "n p"]
    spreads: Float[Array, "n p"]
    joint: Float[Array, " n"]
    """The level of all parameters together, by random points; NaN where there is none."""
    prior_sd: Float[Array, " p"] | None = None
    ends: Float[Array, "2 p"] | None = None
    """Of the prior."""
    calls: int = 0
    about: dict[str, Any] = field(default_factory=dict)
    """How it was made: the method, data sets that failed, how many had warnings, seconds."""
    warnings: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Float[Array, " n"]:
        return as_jax(np.asarray(self.levels)[:, self._place(name)])

    @property
    def data_sets(self) -> int:
        """Those that count; `about["failed"]` has the others."""
        return len(self.levels)

    def coverage(self, level: Any = 0.9) -> Float[Array, " p"]:
        """The share of truths inside the central intervals of this level."""
        return as_jax(self._covered(as_probability("level", level)).mean(0))

    def coverage_bands(self, level: Any = 0.9) -> Float[np.ndarray, "2 p"]:
        """The coverages that these counts are compatible with, 95% binomial intervals."""
        counts = self._covered(as_probability("level", level)).sum(0)
        return np.array([binomial_band(int(k), self.data_sets) for k in counts]).T

    def correct(
        self, result: Distribution, level: Any = 0.9
    ) -> tuple[Float[Array, " p"], Float[Array, " p"]]:
        """Intervals of a result, moved and widened to what was seen here (split conformal).

        result: of the same method on data like those simulated, such as the observed ones.

        They cover the truth with at least this probability, on average over the parameters that the
        calibration was made at. Nothing else in the library uses them.

        Raises ValueError for a result of other parameters, and for too few data sets.
        """
        as_distribution("result", result, self.names, "the problem that was calibrated")
        lowest, highest = self._conformal_scores(as_probability("level", level))
        low, high = result.at_scores(lowest), result.at_scores(highest)
        if self.ends is not None:
            low, high = (np.clip(end, *np.asarray(self.ends)) for end in (low, high))
        return as_jax(low), as_jax(high)

    def _conformal_scores(self, level: float) -> Float[np.ndarray, "2 p"]:
        """Between which a new truth lies with this probability, as one more of those seen."""
        n, tail = self.data_sets, (1 - level) / 2
        below = floor((n + 1) * tail + 1e-9)
        if below < 1:
            raise ValueError(
                f"{n} data sets are too few to correct intervals of level {level:g}; calibrate "
                f"with {ceil(1 / tail - 1e-9) - 1} or more"
            )
        ordered = np.sort(np.asarray(self.scores), axis=0)
        return ordered[[below - 1, n - below]]

    def _covered(self, level: float) -> np.ndarray:
        return np.abs(2 * np.asarray(self.levels) - 1) <= level + 1e-12

    def shrinkage(self) -> Float[np.ndarray, " p"]:
        """1 - variance over that of the prior: 1 where the data tell all, 0 where nothing."""
        if self.prior_sd is None:
            return np.full(len(self.names), np.nan)
        ratios = np.asarray(self.spreads) / np.asarray(self.prior_sd)[None]
        return 1 - np.median(ratios, axis=0) ** 2

    def _table(self) -> list[list[str]]:
        headings = ["parameter", "50% cover", "90% cover", "likely", "bias", "spread", "shrinkage"]
        half, most, (low, high) = self.coverage(0.5), self.coverage(0.9), self.coverage_bands(0.9)
        scores, shrinkage = bounded_scores(self.scores), self.shrinkage()
        bias, spread = -np.nanmedian(scores, axis=0), _robust_spread(scores)
        rows = [
            [
                name,
                f"{half[j]:.0%}",
                f"{most[j]:.0%}",
                f"{low[j]:.0%} to {high[j]:.0%}",
                f"{bias[j]:.2f} sd",
                f"{spread[j]:.2f} sd",
                f"{shrinkage[j]:.2f}",
            ]
            for j, name in enumerate(self.names)
        ]
        return [headings, *rows]

    def _lines(self) -> list[str]:
        failed = [f"{self.about['failed']:,} failed"] if self.about.get("failed") else []
        warned = [f"{self.about['warned']:,} with warnings"] if self.about.get("warned") else []
        made = "; ".join([count(self.data_sets, "data set"), *failed, *warned, self._cost()])
        return [*super()._lines(), made]

    def _facts(self) -> list[str]:
        covered = zip(self.names, np.asarray(self.coverage(0.9)), strict=True)
        return [join([f"{name}: 90% cover {share:.0%}" for name, share in covered])]

    def _notes(self) -> list[str]:
        return [count(self.data_sets, "data set")]


def bounded_scores(scores: Any) -> Float[np.ndarray, "n p"]:
    """NaN where an interval has no end, so that whatever the truth is, its score is 0."""
    known = np.asarray(scores)
    return np.where((known == 0) & np.any(known, axis=0, keepdims=True), np.nan, known)


def _robust_spread(scores: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " p"]:
    """1 for normal scores, by their quartiles."""
    low, high = np.nanquantile(scores, [0.25, 0.75], axis=0)
    return (high - low) / 1.349
