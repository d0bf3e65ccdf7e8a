"""Which parameters ABC accepts: the nearest, and never fewer than the data cannot tell apart.

Where few parameters are simulated, the nearest of them are farther from the data than the data are
from the truth, and a number of them is kept. Where many are, those whose squared MMD is no larger
than n observations of a true model have are all as good as the nearest.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from owlfi._tools.checks import brief, plain_number, positive
from owlfi.inference.search.misfit import expect_squared_mmd
from owlfi.problem.problem import Problem
from owlfi.weights.quadrature import Quadrature

SHARE = 0.05
FEWEST = 100
"""Draws that are kept where nothing is asked for and there are twice as many."""
EXPLAINED = 0.95
"""Of the distances of samples of a true model, the share that lie below the floor."""
_NO_CHANCE = 2.0  # times what 95 of 100 samples do not exceed
_LOOSE = 0.3  # of the prior draws


class Explained(NamedTuple):
    """Distances of samples of a true model: their mean, and what 95 of 100 do not exceed."""

    mean: float
    quantile: float

    def floor(self, found: Float[np.ndarray, " t"]) -> float:
        """Up to where parameters at these distances are as good as the nearest.

        Data that fit badly by chance would else leave nothing open of a true model. Where the
        nearest is farther than chance has it, the parameters are too few, or the model is wrong.
        """
        nearest = float(found.min())
        if nearest > _NO_CHANCE * self.quantile:
            return self.quantile
        return max(self.quantile, nearest + self.quantile - self.mean)


class Cut(NamedTuple):
    """What was asked for: at most one of a share and a threshold, or neither."""

    share: float | None = None
    threshold: float | None = None

    def check(self) -> None:
        """Raises ValueError for what cannot be."""
        share, threshold = self
        if share is not None and threshold is not None:
            both = f"{brief(share)}, {brief(threshold)}"
            raise ValueError(
                f"share and threshold exclude each other, got {both}; give one of them"
            )
        if share is not None and not 0 < plain_number("share", share) <= 1:
            raise ValueError(f"share must lie above 0 and be at most 1, got {brief(share)}")
        if threshold is not None:
            positive("threshold", threshold, number=True)


class Accepted(NamedTuple):
    """The places of the accepted in the order of their distance, their weights, and why these."""

    kept: np.ndarray
    weights: Float[np.ndarray, " k"]
    threshold: float
    because: str
    mass: float
    """Of the prior, in parameters simulated from it."""
    missed: tuple[str, ...] = ()
    """What to say of a threshold that accepts nothing."""

    def about(self, simulated: int) -> dict[str, Any]:
        """What a result tells of it."""
        return {
            "threshold": self.threshold,
            "threshold_because": self.because,
            "simulated": simulated,
            "effective_draws": float(1 / np.sum(self.weights**2)),
        }


def accept_nearest(
    cut: Cut,
    found: Float[np.ndarray, " t"],
    simulated: int,
    importance: np.ndarray | None,
    explained: Explained,
    wanted: int,
) -> Accepted:
    """Those that a cut leaves of parameters at these distances.

    simulated: how many there were with those that failed.
    explained: the distances that observations of a true model explain.
    wanted: how many to keep where nothing is asked for, if there are twice as many, and where the
        threshold that is asked for accepts nothing: what is simulated is not lost.
    """
    order = np.argsort(found, kind="stable")
    if cut.threshold is not None and found[order[0]] > cut.threshold:
        nearest = accept_nearest(Cut(), found, simulated, importance, explained, wanted)
        return nearest._replace(missed=_tell_missed(cut.threshold, found, nearest))
    mass = np.ones(len(found)) if importance is None else importance  # with mean one
    before = np.cumsum(mass[order]) - mass[order]
    if cut.threshold is not None:
        return _accept_below(cut.threshold, found, order, mass, "it was given")
    if cut.share is not None:
        share = max(cut.share * simulated, 1.0 if importance is None else 0.0)
        return _accept_mass(share, found, order, mass, f"{cut.share:.0%} were asked for")
    rows = min(max(min(wanted, simulated // 2), 1), len(found))
    number = max(round(SHARE * simulated), float(np.sum(mass[order[:rows]])))
    nearest, floor = order[before < number], explained.floor(found)
    if found[nearest[-1]] < floor:
        return _accept_below(floor, found, order, mass, "the observations explain as much")
    many = f"{number:,.0f}" if importance is None else f"{number / simulated:.0%} of the prior"
    return _accept_mass(number, found, order, mass, f"the nearest {many} are kept")


def _accept_below(
    threshold: float, found: np.ndarray, order: np.ndarray, mass: np.ndarray, because: str
) -> Accepted:
    kept = order[found[order] <= threshold]
    total = mass[kept].sum()
    return Accepted(kept, mass[kept] / total, float(threshold), because, float(total))


def _accept_mass(
    number: float, found: np.ndarray, order: np.ndarray, mass: np.ndarray, because: str
) -> Accepted:
    """Those that make up as much of the prior, the last of them in part."""
    before = np.cumsum(mass[order]) - mass[order]
    kept = order[before < number - (0.5 if np.ptp(mass) == 0 else 0)]
    weights = np.minimum(mass[kept], number - before[: len(kept)])
    weights = mass[kept] if np.ptp(mass) == 0 else weights
    total = weights.sum()
    return Accepted(kept, weights / total, float(found[kept[-1]]), because, float(total))


def explain_distances(problem: Problem, quadrature: Quadrature) -> Explained:
    """The squared MMDs of samples of a true model, with what the points add."""
    expected, n, excess = expect_squared_mmd(problem), len(problem.observed), quadrature.excess
    if quadrature.unbiased:
        return Explained(0.0, expected.quantile(EXPLAINED, 0.0) - expected.mean)
    added = expected.mean * n / quadrature.m if excess is None else float(np.max(excess))
    return Explained(expected.mean + max(added, 0.0), expected.quantile(EXPLAINED, added))


def _tell_missed(
    threshold: float, found: Float[np.ndarray, " t"], nearest: Accepted
) -> tuple[str, ...]:
    return (
        f"the threshold {threshold:.4g} accepts none of {len(found)} parameters, whose smallest "
        f"squared MMD is {found.min():.4g}; these are the nearest {len(nearest.kept)}, up to "
        f"{nearest.threshold:.4g}: give a larger threshold, or simulate more parameters",
    )


def tell_loose(accepted: Accepted, simulated: int, asked: bool) -> tuple[str, ...]:
    """Of draws that are much of the prior although the data could tell more."""
    share = accepted.mass / simulated
    if asked or share <= _LOOSE or accepted.because.startswith("the observations"):
        return ()
    return (
        f"{share:.0%} of {simulated} parameters are accepted, so that the draws are nearly those "
        f"of the prior; simulate {max(1000, 20 * len(accepted.kept)):,} or more, or use "
        "sequential_abc",
    )
