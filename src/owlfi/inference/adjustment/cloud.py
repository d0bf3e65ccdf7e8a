"""Clouds: the nearest runs, as draws in units of their own spread."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from owlfi._tools.covariances import root_of
from owlfi._tools.real_line import to_real
from owlfi.inference.adjustment.features import UnadjustableError
from owlfi.inference.adjustment.noise import Gaps
from owlfi.inference.adjustment.polynomial import draws_needed
from owlfi.problem.problem import Problem
from owlfi.problem.simulations import Simulations

_HALVED, _FEWEST = 5, 40  # sizes of clouds, each half of the last


class Cloud(NamedTuple):
    """The accepted draws in units of their own spread: v = centre + root ξ on the real line."""

    centre: Float[np.ndarray, " p"]
    root: Float[np.ndarray, "p p"]
    xi: Float[np.ndarray, "n p"]
    weights: Float[np.ndarray, " n"]

    @property
    def worth(self) -> float:
        """How many equally weighted draws there are."""
        return float(1 / np.sum(self.weights**2))

    @property
    def log_volume(self) -> float:
        return float(np.log(np.diag(self.root)).sum())

    def place(self, xi: Float[np.ndarray, "... p"]) -> Float[np.ndarray, "... p"]:
        return self.centre + xi @ self.root.T


def gather_clouds(
    problem: Problem, runs: Simulations, found: np.ndarray, importance: np.ndarray, count: int
) -> list[Cloud]:
    """Some times the accepted draws, and fewer and fewer of the nearest while they are enough.

    Raises UnadjustableError where the accepted ones are.
    """
    v = np.asarray(to_real(runs.thetas, problem.prior.bounds))
    worth = float(1 / np.sum(_weigh(found[:count], importance[:count]) ** 2))
    if worth < draws_needed(p := v.shape[1]):
        raise UnadjustableError(
            f"adjust=True needs draws worth {draws_needed(p)} at least for {p} parameters, but the "
            f"{count} accepted ones, weighted by their distance, are worth {worth:.1f}; simulate "
            "more, accept a larger share, or leave adjust out"
        )
    sizes = [len(v) // 2**halved for halved in range(_HALVED)]
    enough = [size for size in sizes if size >= max(_FEWEST, 2 * draws_needed(p))]
    clouds = [_gather(v[:size], _weigh(found[:size], importance[:size])) for size in enough]
    return clouds or [_gather(v, _weigh(found, importance))]


def _weigh(found: np.ndarray, importance: np.ndarray) -> Float[np.ndarray, " n"]:
    """The nearer, the heavier (Epanechnikov)."""
    near = (found.max() - found) / (np.ptp(found) + np.finfo(float).tiny)
    weights = (near + 1e-3) * importance
    return weights / weights.sum()


def _gather(v: Float[np.ndarray, "n p"], weights: Float[np.ndarray, " n"]) -> Cloud:
    centre = weights @ v
    centred = v - centre
    covariance = (centred * weights[:, None]).T @ centred
    root = root_of(covariance)
    return Cloud(centre, root, np.linalg.solve(root, centred.T).T, weights)


def spread_within(cloud: Cloud, gaps: Gaps, axes: Float[np.ndarray, "p a"]) -> float:
    """The largest variance along some axes of the cloud's draws, weighted by what gaps tell."""
    logs = -0.5 * (gaps.distance + gaps.size)
    weights = cloud.weights * np.exp(logs - logs.max())
    weights /= weights.sum()
    along = (cloud.xi - weights @ cloud.xi) @ axes
    return float(np.linalg.eigvalsh((along * weights[:, None]).T @ along)[-1])
