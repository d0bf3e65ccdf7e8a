"""Quantiles of distributions: from normal scores, and of counts from levels."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import ive, ndtr, ndtri

Function = Callable[..., Any]
_LARGEST = 2.0**62  # count
_LEAST = 1e-300  # level that has a normal score
_NARROW = 1e4  # concentrations beyond which von Mises is normal to five digits
_STEPS = 60


def by_tails(z: Any, lower: Function, upper: Function, *parameters: Any) -> Any:
    """Quantiles at the levels Φ(z), each from the nearer end of the distribution.

    lower, upper: the points that leave a probability below them, and above them.
    """
    if isinstance(z, float):
        return (lower if z < 0 else upper)(ndtr(-abs(z)), *parameters)
    z, *each = np.broadcast_arrays(z, *parameters)
    found, below = np.empty(z.shape), z < 0
    for side, quantile in ((below, lower), (~below, upper)):
        found[side] = quantile(ndtr(-np.abs(z[side])), *(p[side] for p in each))
    return found


def count_quantile(v: Any, cdf: Function, mean: Any, sd: Any, *parameters: Any) -> Any:
    """The smallest whole number k ≥ 0 with cdf(k, *parameters) ≥ v."""
    if isinstance(v, float):  # at once, as loops draw one at a time
        score = float(ndtri(max(v, _LEAST)))
        guess = min(max(mean + sd * score, 0.0), _LARGEST) // 1
        return _search_one(lambda k: cdf(k, *parameters) >= v, guess)
    guess = np.floor(np.clip(mean + sd * ndtri(np.maximum(v, _LEAST)), 0.0, _LARGEST))
    v, guess, *each = (a.ravel() for a in np.broadcast_arrays(v, guess, *parameters))
    return _search_all(lambda k, i: cdf(k, *(p[i] for p in each)) >= v[i], guess.astype(float))


def _search_one(reaches: Callable[[float], Any], guess: float) -> float:
    """By steps that double, until the answer lies between two numbers, then by halves."""
    low, high, step = guess - 1, guess, 1.0
    while high < _LARGEST and not reaches(high):
        low, high, step = high, high + step, 2 * step
    step = 1.0
    while low >= 0 and high <= guess and reaches(low):
        low, high, step = max(low - step, -1.0), low, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high


def _search_all(reaches: Callable[[np.ndarray, np.ndarray], np.ndarray], guess: np.ndarray) -> Any:
    """The same for each of many; `reaches` is asked for some of them, by their places."""
    low, high, step = guess - 1, guess.copy(), 1.0
    up = np.arange(len(guess))
    while (up := up[(high[up] < _LARGEST) & ~reaches(high[up], up)]).size:
        low[up], high[up], step = high[up], high[up] + step, 2 * step
    down, step = np.flatnonzero((low >= 0) & (high == guess)), 1.0
    while (down := down[(low[down] >= 0) & reaches(np.maximum(low[down], 0), down)]).size:
        low[down], high[down], step = np.maximum(low[down] - step, -1), low[down], 2 * step
    while (wide := np.flatnonzero(high - low > 1)).size:
        middle = (low[wide] + high[wide]) // 2
        enough = reaches(middle, wide)
        low[wide], high[wide] = (
            np.where(enough, low[wide], middle),
            np.where(enough, middle, high[wide]),
        )
    return high


def vonmises_quantile(v: Any, kappa: Any) -> Any:
    """Around 0, by Newton's method on the Fourier series of the distribution function."""
    v, kappa = np.broadcast_arrays(np.asarray(v, float), np.asarray(kappa, float))
    usual = 2 * np.arcsin(np.clip(ndtri(v) / (2 * np.sqrt(np.maximum(kappa, 1.0))), -1, 1))
    if kappa.min(initial=np.inf) > _NARROW:  # exp(-2 κ sin²(x/2)) is normal there
        return usual
    kappa = np.minimum(kappa, _NARROW)
    last = int(9 * np.sqrt(kappa.max(initial=0.0))) + 12  # I_j(κ) / I_0(κ) ≈ exp(-j² / 2κ)
    orders = np.arange(1.0, last).reshape(-1, *[1] * v.ndim)
    shares = ive(orders, kappa) / ive(0, kappa)
    low, high, angle = np.full(v.shape, -np.pi), np.full(v.shape, np.pi), usual
    for _ in range(_STEPS):
        below = 0.5 + (angle / 2 + (shares * np.sin(orders * angle) / orders).sum(0)) / np.pi
        density = (0.5 + (shares * np.cos(orders * angle)).sum(0)) / np.pi
        low, high = np.where(below < v, angle, low), np.where(below < v, high, angle)
        moved = angle - (below - v) / np.maximum(density, 1e-300)
        moved = np.where((moved >= low) & (moved <= high), moved, (low + high) / 2)
        angle, before = moved, angle
        if np.all(np.abs(angle - before) < 1e-13):
            break
    return angle
