"""Draws of a density on the line that may have several modes, by annealing from a wide normal."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

LogDensity = Callable[[Float[np.ndarray, "n p"]], Float[np.ndarray, " n"]]
_WIDTH = 1.5  # of the first draws
_MOVES = 8
_WORTH = 0.5  # of the draws, that a step of the annealing leaves
_MOST_STEPS = 100


def draw_by_annealing(
    random: np.random.Generator, log_density: LogDensity, p: int, count: int
) -> Float[np.ndarray, "n p"]:
    """Draws (count, p) of a density near the origin, of which parts are lighter than a normal.

    Sequential Monte Carlo (Del Moral, Doucet and Jasra 2006): from a normal to the density in steps
    that leave half of the draws worth something, with Metropolis moves after each.
    """
    xi = _WIDTH * random.normal(size=(count, p))
    value, heat = log_density(xi), 0.0
    for _ in range(_MOST_STEPS):
        gain = value - _first(xi)
        step = _choose_step(gain, 1 - heat)
        heat += step
        chosen = _resample(random, step * gain)
        xi, value = _move(random, log_density, xi[chosen], value[chosen], heat)
        if heat >= 1:
            break
    return xi


def _first(xi: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
    return -0.5 * (xi**2).sum(1) / _WIDTH**2


def _choose_step(gain: Float[np.ndarray, " n"], left: float) -> float:
    """The longest that leaves enough draws, by bisection."""

    def worth(step: float) -> float:
        weights = np.exp(step * (gain - gain.max()))
        return float(weights.sum() ** 2 / (weights**2).sum() / len(gain))

    if worth(left) >= _WORTH:
        return left
    low, high = 0.0, left
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if worth(middle) >= _WORTH else (low, middle)
    return max(low, 1e-3 * left)


def _resample(random: np.random.Generator, logs: Float[np.ndarray, " n"]) -> np.ndarray:
    """Systematically: places of draws, as often as they weigh."""
    weights = np.cumsum(np.exp(logs - logs.max()))
    levels = (np.arange(len(logs)) + random.uniform()) / len(logs) * weights[-1]
    return np.searchsorted(weights, levels).clip(0, len(logs) - 1)


def _move(
    random: np.random.Generator,
    log_density: LogDensity,
    xi: np.ndarray,
    value: np.ndarray,
    heat: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Metropolis steps, short and long, on the density of this heat."""
    count, p = xi.shape
    covariance = np.cov(xi.T).reshape(p, p) + 1e-12 * np.eye(p)
    jumps = 2.38 / p**0.5 * np.linalg.cholesky(covariance).T
    for _ in range(_MOVES):
        far = random.choice([0.3, 1.0], size=(count, 1))
        moved = xi + far * random.normal(size=(count, p)) @ jumps
        there = log_density(moved)
        rise = heat * (there - value) + (1 - heat) * (_first(moved) - _first(xi))
        better = rise > np.log(random.uniform(size=count))  # never to where it is -∞
        xi, value = np.where(better[:, None], moved, xi), np.where(better, there, value)
    return xi, value
