"""Levels of truths: uniform on (0, 1) where a method is calibrated (Talts et al. 2018)."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import betaincinv, gammainc, gammaincc, kolmogorov, ndtr, ndtri

_LEAST = 1e-6  # levels of formulas may be 0 or 1 to all digits


class Uniformity(NamedTuple):
    """p-values of what may be wrong with the levels v of one parameter."""

    bias: float
    """Half of the truths lie above the middle."""
    width: float
    """They are as often in the tails as they should be."""
    shape: float
    """Neither, but still not uniform."""
    shrinkage: float
    """Truths lie beyond large and small estimates alike: these are pulled to the middle too far."""
    scatter: float
    """Large truths have estimates that are still larger: these scatter more than they say."""


def look_at_levels(
    v: Float[np.ndarray, " n"], theta: Float[np.ndarray, " n"], center: Float[np.ndarray, " n"]
) -> Uniformity:
    """v: the level of each truth theta in what the method found, whose center is beside it.

    Given the data, v of an exact posterior is uniform, and so independent of the center; v of an
    exact confidence distribution is independent of theta. Everything between them passes.
    """
    z, root = normal_scores(v), np.sqrt(len(v))
    return Uniformity(
        two_sided(root * float(np.mean(z))),
        width_p(v),
        kolmogorov_p(v),
        float(ndtr(-root * _correlate(z, center))),
        float(ndtr(root * _correlate(z, theta))),
    )


def normal_scores(v: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Normal quantiles of the levels, which have mean 0 and variance 1 where these are uniform."""
    return ndtri(np.clip(v, _LEAST, 1 - _LEAST))


def is_narrow(v: Float[np.ndarray, " n"]) -> bool:
    """Whether truths are too far out, rather than too far inside."""
    return bool(np.mean(normal_scores(v) ** 2) > 1)


def width_p(v: Float[np.ndarray, " n"]) -> float:
    """The p-value of the spread of the levels: the sum of squared normal scores is χ²."""
    half, total = len(v) / 2, float(np.sum(normal_scores(v) ** 2)) / 2
    return float(min(1.0, 2 * min(gammainc(half, total), gammaincc(half, total))))


def two_sided(score: float) -> float:
    """The p-value of a normal score.

    >>> round(two_sided(-1.96), 3)
    0.05
    """
    return float(2 * ndtr(-abs(score)))


def kolmogorov_p(v: Float[np.ndarray, " n"]) -> float:
    """The p-value of the largest distance to the uniform distribution function.

    With the correction of Stephens (1970) for finite n.
    """
    ordered, n = np.sort(v), len(v)
    steps = np.arange(n + 1) / n
    distance = max((steps[1:] - ordered).max(), (ordered - steps[:-1]).max())
    return float(kolmogorov((np.sqrt(n) + 0.12 + 0.11 / np.sqrt(n)) * distance))


def binomial_band(count: float, n: float, level: float = 0.95) -> tuple[float, float]:
    """The probabilities with which `count` of n are no surprise (Clopper and Pearson 1934).

    Neither need be whole: n may be an effective number.

    >>> [round(end, 3) for end in binomial_band(180, 200)]
    [0.85, 0.938]
    """
    tail = (1 - level) / 2
    low = 0.0 if count == 0 else float(betaincinv(count, n - count + 1, tail))
    return low, 1.0 if count == n else float(betaincinv(count + 1, n - count, 1 - tail))


def _correlate(z: Float[np.ndarray, " n"], values: Float[np.ndarray, " n"]) -> float:
    """Of normal scores with the normal quantiles of the ranks of the values.

    Those of calibrated methods have mean 0 and variance 1, which is not estimated.
    """
    ranks = np.argsort(np.argsort(values, kind="stable"))
    others = ndtri((ranks + 0.5) / len(ranks))
    return float(np.mean(z * others) / np.sqrt(np.mean(others**2)))
