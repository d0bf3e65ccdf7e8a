"""How scipy's densities go beside the ends of their supports and their singular points.

There scipy rounds: a density is then continued by the power law that it follows close by.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

_RESOLVED = 2.0**-20  # of a point's value: nearer to it, scipy's density loses digits
_ROUNDED = 2.0**-51  # and nearer than this, all
_LOSING = 2.0**-6  # beyond, it loses none


def split_parameters(frozen: Any) -> tuple[tuple[Any, ...], Any, Any]:
    """The shapes of a frozen distribution, its location and its scale."""
    parsed = frozen.dist._parse_args(*frozen.args, **frozen.kwds)
    return tuple(parsed[0]), parsed[1], parsed[2] if len(parsed) > 2 else 1.0


class Standard(NamedTuple):
    """A frozen distribution as loc + scale · (another)."""

    distribution: Any
    loc: float
    scale: float


@lru_cache(maxsize=128)
def standardise(frozen: Any) -> Standard:
    """The same with location 0 and scale 1, and what those were."""
    shapes, loc, scale = split_parameters(frozen)
    return Standard(frozen.dist(*shapes), float(loc), float(scale))


def nearest(points: tuple[float, ...], z: float) -> float:
    """Which of the points is closest to z."""
    return min(points, key=lambda point: abs(point - z))


class _Law(NamedTuple):
    """How a density goes beside a point: distance^power exp(Σ_k bends_k distance^k)."""

    power: float
    bends: np.ndarray

    def log_density(self, distance: np.ndarray | np.floating) -> np.ndarray | np.floating:
        """Up to a constant."""
        return self.power * np.log(distance) + np.polyval([*self.bends[::-1], 0.0], distance)


def log_density_beside(
    standard: Standard, point: float, sign: float, distance: np.ndarray
) -> np.ndarray:
    """By the law beside the point, where there is one, for what rounding swallows."""
    law = _find_law(standard.distribution, point, sign)
    distance = distance / standard.scale
    unit = _unit(standard.distribution, point) if point else 0.0  # distances from 0 are exact
    least = unit * _RESOLVED if law else abs(point) * _ROUNDED
    z = point + sign * np.where(distance > 0, np.maximum(distance, least), 0.0)
    value = standard.distribution.logpdf(z) - np.log(standard.scale)
    swallowed = (distance > 0) & (distance < _LOSING * unit)
    if law is None or not swallowed.any():
        return value
    kept = np.where(swallowed, np.abs(z - point), 1.0)
    lost = law.log_density(np.where(swallowed, distance, 1.0)) - law.log_density(kept)
    return value + np.where(swallowed, lost, 0.0)


@lru_cache(maxsize=512)
def _find_law(distribution: Any, point: float, sign: float) -> _Law | None:
    """The law of the density beside a point.

    It holds at every small scale: a density that vanishes exponentially has none.
    """
    if np.isinf(point):
        return None
    far, near = (_fit_law(distribution, point, sign, step) for step in (_RESOLVED, 2.0**-26))
    stable = abs(far.power - near.power) <= 1e-5 * (1 + abs(near.power))
    return far if stable and far.power > -1 else None


def _fit_law(distribution: Any, point: float, sign: float, step: float) -> _Law:
    """Through the densities at five distances, each twice the one before."""
    unit, t = step * _unit(distribution, point), 2.0 ** np.arange(5)
    z = point + sign * unit * t
    t = np.abs(z - point) / unit
    with np.errstate(all="ignore"):
        heights = distribution.logpdf(z)
        _, power, *bends = np.linalg.solve(np.stack([t**0, np.log(t), t, t**2, t**3], 1), heights)
    return _Law(float(power), np.array(bends) / unit ** np.arange(1, 4))


@lru_cache(maxsize=512)
def _unit(distribution: Any, point: float) -> float:
    """Small parts of it are small for rounding and for the density."""
    spread = float(np.diff(distribution.ppf([0.001, 0.999]))[0])
    return min(abs(point) or spread, spread)


def extrapolate(
    distribution: Any, distances: np.ndarray, level: np.ndarray, side: int
) -> np.ndarray:
    """Falling distances of quantiles from their end, by its law where scipy rounds to it."""
    end, sign = distribution.support()[side], (1.0, -1.0)[side]
    if end == 0 or _find_law(distribution, end, sign) is None:
        return distances
    exact = distances > _RESOLVED * _unit(distribution, end)
    return np.where(exact, distances, law_distances(distribution, end, sign, level))


def law_distances(distribution: Any, point: float, sign: float, level: np.ndarray) -> np.ndarray:
    """How far from a point the density has piled up a small probability."""
    law, unit = _find_law(distribution, point, sign), _unit(distribution, point)
    if law is None:
        return unit * level
    z = point + sign * _RESOLVED * unit
    height = distribution.logpdf(z) - law.log_density(np.abs(z - point))  # at distance 1
    mass = np.exp(height) / (1 + law.power)
    with np.errstate(over="ignore"):
        return (level / mass) ** (1 / (1 + law.power))


@lru_cache(maxsize=128)
def find_singular_points(frozen: Any) -> tuple[float, ...]:
    """Where the density of the standard distribution is infinite inside its support."""
    distribution = standardise(frozen).distribution
    z = distribution.ppf(np.linspace(0.0, 1.0, 33)[1:-1])
    height = _heights(distribution, z)
    top = (height[1:-1] > height[:-2]) & (height[1:-1] >= height[2:])
    peaks = [_climb(distribution, z[i], z[i + 2]) for i in np.flatnonzero(top)]
    return tuple(sorted({z for z in peaks if _is_singular(distribution, z)}))


def _is_singular(distribution: Any, z: float) -> bool:
    laws = [_find_law(distribution, z, sign) for sign in (-1.0, 1.0)]
    return any(law is not None and law.power < -1e-3 for law in laws)


def _climb(distribution: Any, low: float, high: float) -> float:
    """Where the density is largest, to the last digit as long as it goes on rising."""
    highest = -np.inf
    while True:
        z = np.linspace(low, high, 65)
        height = _heights(distribution, z)
        top = int(height.argmax())
        if np.isinf(height[top]) or height[top] < highest + 1e-3:
            return float(z[top])
        low, high, highest = z[max(top - 1, 0)], z[min(top + 1, 64)], height[top]


def _heights(distribution: Any, z: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.nan_to_num(distribution.logpdf(z), nan=np.inf, posinf=np.inf, neginf=-1e300)
