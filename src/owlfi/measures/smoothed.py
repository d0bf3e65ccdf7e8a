"""The law that some draws come from: a normal around each of them."""

from math import inf, log, pi
from typing import Any

import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float
from scipy.special import logsumexp as host_logsumexp
from scipy.special import ndtr

from owlfi._tools.arrays import as_jax, numpy_for
from owlfi._tools.checks import as_numbers, as_rows, as_weights, is_traced
from owlfi._tools.covariances import root_of
from owlfi._tools.display import count
from owlfi._tools.real_line import from_real, log_slope, to_real
from owlfi.measures.base import Measure, as_coordinates

_MOST = 1000  # draws that are looked at
_NARROWER = 0.5 ** np.arange(7)  # of Scott's width: for draws around several places
_STEPS, _PRECISE = 100, 1e-15
_REACH = 9.0  # standard deviations, beyond which a normal has nothing
_ROWS = 4096


class Smoothed(Measure):
    """A density with the mean and covariance of draws (n, s), such as those of a former posterior.

    weights: (n,) of the draws, equal where left out.
    low, high: (s,) or one number, ends that no draw reaches, such as 0 for a scale; -inf and inf
        where there is none, or left out.

    A normal around each draw, on the real line, as wide as makes the draws that are left out of it
    most likely; draws are moved towards their mean by as much as that widens them (West 1993). Of
    more than 1,000 draws, 1,000 are taken.

    Raises ValueError for fewer different draws than s + 2, and for draws outside of the ends.

    >>> draws = np.random.default_rng(0).exponential(size=(500, 1))
    >>> smoothed = Smoothed(draws, low=0.0)
    >>> bool(abs(smoothed.log_density([1.0]) + 1.0) < 0.1)  # that of the law is -1
    True
    """

    places: Float[Array, "n s"]
    shares: Float[Array, " n"]
    root: Float[Array, "s s"]
    low: Float[Array, " s"]
    high: Float[Array, " s"]

    def __init__(self, draws: Any, weights: Any = None, low: Any = None, high: Any = None):
        given = as_rows("draws", draws)
        rows, s = np.asarray(given), given.shape[1]
        first, last = _as_end("low", low, -inf, s), _as_end("high", high, inf, s)
        self.low, self.high = as_jax(first), as_jax(last)
        if not ((rows > first) & (rows < last)).all():
            raise ValueError(
                f"draws must lie inside of low = {first} and high = {last}, got {rows.min(0)} to "
                f"{rows.max(0)}; give ends that they do not reach"
            )
        shares = np.full(len(rows), 1 / len(rows))
        if weights is not None:
            shares = np.asarray(as_weights("weights", weights, given))
        if shares.min() < 0 or not shares.sum() > 0:
            raise ValueError("weights must be at least 0 and not all 0; they are shares of draws")
        v, kept = _thin(np.asarray(to_real(as_jax(rows), self.support)), shares / shares.sum())
        if len(v) < s + 2:
            raise ValueError(
                f"draws must hold at least {s + 2} different rows for {s} columns, got {len(v)}; "
                "give more"
            )
        self.places, self.root = (as_jax(part) for part in _spread_out(v, kept))
        self.shares = as_jax(kept)

    def __repr__(self) -> str:
        n, s = self.places.shape
        return f"Smoothed({count(n, 'draw')} in {count(s, 'dimension')})"

    @property
    def dim(self) -> int:
        return self.places.shape[1]

    @property
    def support(self) -> tuple[Array, Array]:
        return self.low, self.high

    @property
    def traceable(self) -> bool:
        return False  # quantiles are found step by step

    @property
    def traceable_density(self) -> bool:
        return True

    def log_density(self, u: Any) -> Float[Array, "..."]:
        u = as_coordinates("u", u, self.dim)
        xp = numpy_for(u, self)
        rows = xp.asarray(u).reshape(-1, self.dim)
        low, high = xp.asarray(self.low)[None], xp.asarray(self.high)[None]
        inside = ((rows > low) & (rows < high)).all(1)
        safe = xp.where(inside[:, None], rows, xp.asarray(self._middle)[None])
        v = to_real(as_jax(safe), self.support)
        logs = self._log_density_of_real(xp, xp.asarray(v))
        logs = logs - xp.asarray(log_slope(v, self.support)).sum(1)
        return as_jax(xp.where(inside, logs, -inf).reshape(u.shape[:-1]))

    @property
    def _middle(self) -> Float[Array, " s"]:
        return from_real(self.places[0], self.support)

    def _log_density_of_real(self, xp: Any, v: Any) -> Any:
        scale = xp.linalg.inv(xp.asarray(self.root))
        scaled = (v[:, None] - xp.asarray(self.places)[None]) @ scale.T
        logs = xp.log(xp.asarray(self.shares))[None] - 0.5 * (scaled**2).sum(-1)
        total = host_logsumexp(logs, axis=1) if xp is np else logsumexp(logs, axis=1)
        return total + xp.log(xp.diagonal(scale)).sum() - 0.5 * self.dim * log(2 * pi)

    def at_levels(self, v: Float[Array, "... s"]) -> Float[Array, "... s"]:
        if is_traced(v, self):
            raise ValueError(
                "Smoothed.from_uniform runs on the host and cannot be used inside jit, vmap or "
                "grad; draw the points outside and pass them in"
            )
        levels = np.asarray(v).reshape(-1, self.dim).clip(np.finfo(float).tiny, 1 - 2.0**-53)
        found = [_Walk(self, len(part)).to_places(part) for part in _split(levels)]
        real = as_jax(np.concatenate(found))
        return as_jax(np.asarray(from_real(real, self.support)).reshape(v.shape))

    def to_levels(self, u: Float[np.ndarray, "n s"]) -> Float[np.ndarray, "n s"]:
        v = np.asarray(to_real(as_jax(u), self.support))
        return np.concatenate([_Walk(self, len(part)).to_levels(part) for part in _split(v)])


class _Walk:
    """From coordinate to coordinate of some points, each given those before it.

    Around draw i, v = place_i + root z with standard normal z, so that v_j given those before it
    is a mixture of normals of one width, with the beliefs in the draws as weights.
    """

    def __init__(self, law: Smoothed, rows: int):
        self.places, self.root = np.asarray(law.places), np.asarray(law.root)
        self.logs = np.broadcast_to(np.log(np.asarray(law.shares)), (rows, len(self.places)))
        self.z = np.zeros((rows, *self.places.shape))

    def to_places(self, levels: Float[np.ndarray, "r s"]) -> Float[np.ndarray, "r s"]:
        columns = []
        for j in range(levels.shape[1]):
            columns.append(self._find(j, levels[:, j]))
            self._move(j, columns[-1])
        return np.stack(columns, 1)

    def to_levels(self, v: Float[np.ndarray, "r s"]) -> Float[np.ndarray, "r s"]:
        columns = []
        for j in range(v.shape[1]):
            columns.append(self._below(j, v[:, j]))
            self._move(j, v[:, j])
        return np.stack(columns, 1)

    def _means(self, j: int) -> Float[np.ndarray, "r n"]:
        return self.places[:, j] + self.z[:, :, :j] @ self.root[j, :j]

    def _beliefs(self) -> Float[np.ndarray, "r n"]:
        return np.exp(self.logs - host_logsumexp(self.logs, axis=1, keepdims=True))

    def _below(self, j: int, x: Float[np.ndarray, " r"]) -> Float[np.ndarray, " r"]:
        return (self._beliefs() * ndtr((x[:, None] - self._means(j)) / self.root[j, j])).sum(1)

    def _find(self, j: int, levels: Float[np.ndarray, " r"]) -> Float[np.ndarray, " r"]:
        beliefs, means, sd = self._beliefs(), self._means(j), self.root[j, j]
        low, high = means.min(1) - _REACH * sd, means.max(1) + _REACH * sd
        found, left = (beliefs * means).sum(1), np.arange(len(levels))
        rest = [beliefs, means, levels, low, high, _PRECISE * (high - low), high - low]
        for _ in range(_STEPS):
            x, *rest = _step_towards(sd, found[left], *rest)
            found[left], far = x, np.abs(rest[-1]) > rest[-2]
            left, rest = left[far], [part[far] for part in rest]
            if not len(left):
                break
        return found

    def _move(self, j: int, x: Float[np.ndarray, " r"]) -> None:
        self.z[:, :, j] = (x[:, None] - self._means(j)) / self.root[j, j]
        self.logs = self.logs - 0.5 * self.z[:, :, j] ** 2


def _step_towards(
    sd: float,
    x: np.ndarray,
    beliefs: np.ndarray,
    means: np.ndarray,
    levels: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    close: np.ndarray,
    last: np.ndarray,
) -> tuple[np.ndarray, ...]:
    """By Newton's step where it is short enough and stays between the ends, else to the middle."""
    z = (x[:, None] - means) / sd
    beyond = (beliefs * ndtr(z)).sum(1) - levels
    slope = (beliefs * np.exp(-0.5 * z**2)).sum(1) / (sd * (2 * pi) ** 0.5)
    low, high = np.where(beyond < 0, x, low), np.where(beyond < 0, high, x)
    step = beyond / np.maximum(slope, np.finfo(float).tiny)
    good = (np.abs(2 * step) < np.abs(last)) & (x - step > low) & (x - step < high)
    last = np.where(good, step, x - (low + high) / 2)
    return x - last, beliefs, means, levels, low, high, close, last


def _as_end(name: str, end: Any, infinite: float, s: int) -> Float[np.ndarray, " s"]:
    given = np.array(infinite) if end is None else as_numbers(name, end).astype(float)
    if given.shape not in ((), (s,)):
        raise ValueError(
            f"{name} must be one number or one for each of the {s} columns, got shape {given.shape}"
        )
    return np.array(np.broadcast_to(given, (s,)))


def _split(rows: np.ndarray) -> list[np.ndarray]:
    """As many at once as memory likes."""
    return [rows[i : i + _ROWS] for i in range(0, max(len(rows), 1), _ROWS)]


def _thin(v: Float[np.ndarray, "n s"], shares: Float[np.ndarray, " n"]) -> tuple[Any, Any]:
    """Different draws with their shares: chains repeat some, and too many are thinned evenly."""
    rows, places = np.unique(v, axis=0, return_inverse=True)
    total = np.bincount(places.ravel(), shares, len(rows))
    rows, total = rows[total > 0], total[total > 0]
    if len(rows) <= _MOST:
        return rows, total
    levels = (np.arange(_MOST) + 0.5) / _MOST  # rows are in the order of their first column
    chosen, times = np.unique(np.searchsorted(np.cumsum(total), levels), return_counts=True)
    return rows[chosen.clip(max=len(rows) - 1)], times / _MOST


def _spread_out(
    v: Float[np.ndarray, "n s"], shares: Float[np.ndarray, " n"]
) -> tuple[np.ndarray, np.ndarray]:
    """The middles of the normals and the root of their covariance."""
    mean, s = shares @ v, v.shape[1]
    centred = v - mean
    covariance = (centred * shares[:, None]).T @ centred
    root = root_of(covariance)
    xi = np.linalg.solve(root, centred.T).T
    scott = (1 / np.sum(shares**2)) ** (-1 / (s + 4))
    widths = min(scott, 0.9) * _NARROWER
    width = max(widths, key=lambda width: _likelihood_without(xi, shares, width))
    return mean + np.sqrt(1 - width**2) * centred, width * root


def _likelihood_without(
    xi: Float[np.ndarray, "n s"], shares: Float[np.ndarray, " n"], width: float
) -> float:
    """The mean log density of each draw by the normals around the others."""
    from scipy.spatial.distance import cdist  # heavy

    logs = np.log(shares) - 0.5 * cdist(xi, np.sqrt(1 - width**2) * xi, "sqeuclidean") / width**2
    np.fill_diagonal(logs, -np.inf)
    each = host_logsumexp(logs, axis=1) - np.log1p(-shares) - xi.shape[1] * np.log(width)
    return float(shares @ each)
