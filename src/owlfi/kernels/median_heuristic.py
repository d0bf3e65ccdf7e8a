"""The median heuristic: exact, whatever the sample size, in bounded memory."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import ceil, ldexp, sqrt
from os import cpu_count
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Array, Float

from owlfi._tools.checks import as_rows, is_traced
from owlfi._tools.progress import track_steps
from owlfi._tools.special import safe_sqrt
from owlfi.kernels import squared_distances

_KEPT = 2_000_000  # at most this many squared distances are held at a time
_SAMPLE = 2**18
_ROWS = 64
_FEW_A_ROW = 8
_SAFE_SQUARES = 1e-290, 1e290  # with all their digits, and their sums
_SHIFT = 600  # of exponents, to bring other squares there


def median_heuristic(data: Any, *, name: str = "data") -> Float[Array, ""]:
    """The lengthscale sqrt(median ‖a - b‖² / 2) over all n² pairs of rows, the diagonal included.

    data: (n, d), or (n,) for n numbers; at least two different rows.
    name: what errors call them.

    The value is the one a full sort of all n² squared distances would give; only a small bracket
    around the median is ever held. Under jit, vmap or grad a bisection over the bits of the
    answer takes its place (the same value up to rounding, more slowly, and for distances between
    1e-150 and 1e150 only).

    Raises ValueError for less than two rows, and where the median is 0: at least half of all pairs
    coincide, and only you can say which distances matter. Inside jit, where nothing can be raised,
    it is 0 then, with gradient 0.

    >>> float(median_heuristic([0.0, 1.0, 3.0]))
    0.7071067811865476
    """
    x = as_rows(name, data)
    n = x.shape[0]
    if n < 2:
        raise ValueError(f"{name} must have at least 2 rows, got {n}")
    ranks = [(rank - n) // 2 for rank in ((n * n - 1) // 2, n * n // 2)]  # each pair counts twice
    if is_traced(x):
        low, high = (_traced_order_statistic(x, r) if r >= 0 else jnp.zeros(()) for r in ranks)
        return safe_sqrt((low + high) / 4)
    median = _scaled_root(np.asarray(x), ranks)
    if median == 0:
        raise ValueError(
            f"{name} has a median distance of 0: at least half of the {n}² pairs of rows "
            "coincide; give the kernel a lengthscale yourself, or leave out repeated rows"
        )
    return jax.device_put(np.float64(median))


def _scaled_root(x: np.ndarray, ranks: list[int]) -> float:
    """sqrt((low + high) / 4) of two squared distances, of data scaled where squares overflow.

    Scaling by a power of two is exact.
    """
    low, high = _order_statistics(x, ranks)
    least, largest = _SAFE_SQUARES
    if least < high < largest:
        return sqrt((low + high) / 4)
    room = 1000 - int(np.frexp(np.abs(x).max())[1])  # no row may become infinite
    shift = min(_SHIFT, max(room, 0)) if high <= least else -_SHIFT
    low, high = _order_statistics(np.ldexp(x, shift), ranks)
    return ldexp(sqrt((low + high) / 4), -shift)


class _Interval(NamedTuple):
    """Of squared distances, and how many are expected in it."""

    low: float
    high: float
    expected: float


class _Bracket(NamedTuple):
    """Where squared distances lie relative to an interval."""

    below: int
    low: int  # equal to the lower end
    inside: int
    high: int  # equal to the upper end
    kept: np.ndarray  # those inside, thinned to fit in memory


def _order_statistics(x: np.ndarray, ranks: list[int]) -> list[float]:
    """The squared distances of neighbouring ranks among all pairs i < j; below them, it is 0."""
    ranks = [rank for rank in ranks if rank >= 0]
    with np.errstate(over="ignore"):  # infinite squares sort where they should
        found = _search(x, ranks) if ranks else []
    return [0.0] * (2 - len(found)) + found


def _search(x: np.ndarray, ranks: list[int]) -> list[float]:
    if x.shape[1] > 1 and len(x) * (len(x) - 1) // 2 <= _KEPT:
        return np.partition(scipy.spatial.distance.pdist(x, "sqeuclidean"), ranks)[ranks].tolist()
    scan, interval = _prepare(x, ranks[0])
    while True:
        found = scan(interval)
        end = found.below + found.low + found.inside + found.high
        if not (found.below <= ranks[0] and ranks[-1] < end):
            interval = _Interval(-1.0, np.inf, len(x) ** 2 / 2)
        elif found.inside == len(found.kept):
            return [_pick(found, interval, rank) for rank in ranks]
        else:
            position = (ranks[0] + 0.5 - found.below - found.low) / found.inside
            interval = _interval_around(found.kept, position, found.inside)


def _prepare(x: np.ndarray, rank: int) -> tuple[Callable[[_Interval], _Bracket], _Interval]:
    """How to scan all pairs, and an interval to begin with that holds the rank, or nearly so."""
    pairs = len(x) * (len(x) - 1) // 2
    if x.shape[1] == 1:
        line = np.sort(x[:, 0])
        return partial(_scan_line, line), _bisect(line, rank)
    return partial(_scan, x), _interval_around(_random_pairs(x), (rank + 0.5) / pairs, pairs)


def _interval_around(sample: np.ndarray, position: float, size: int) -> _Interval:
    """Five standard errors around a quantile of `size` values, of which some are given."""
    width = 5 / sqrt(len(sample))
    low, high = (
        np.quantile(sample, q, method="nearest") if 0 < q < 1 else edge
        for q, edge in ((position - width, -1.0), (position + width, np.inf))
    )
    return _Interval(low, high, min(1, 2 * width) * size)


def _bisect(x: np.ndarray, rank: int) -> _Interval:
    """The same for sorted numbers, whose pairs closer than a bound are counted by searching."""

    def count_closer(bound: float) -> int:
        return int((np.searchsorted(x, x + bound) - np.arange(len(x))).sum()) - len(x)

    low, high = 0.0, min(x[-1] - x[0], np.finfo(float).max)
    below, until = 0, len(x) * (len(x) - 1) // 2
    slack = _slack(x)
    while until - below > _FEW_A_ROW * len(x) and high - low > slack:
        middle = low + (high - low) / 2
        count = count_closer(middle)
        low, below, high, until = (
            (middle, count, high, until) if count <= rank else (low, below, middle, count)
        )
    low = low - slack
    return _Interval(low**2 if low > 0 else -1.0, (high + slack) ** 2, until - below)


def _slack(x: np.ndarray) -> float:
    """Far above the rounding of distances, and of squares that underflow."""
    return 1e-12 * np.abs(x).max() + 1e-160


def _random_pairs(x: np.ndarray) -> np.ndarray:
    """A sample of squared distances that steers the search; the result does not depend on it."""
    rng = np.random.default_rng(0)
    i = rng.integers(0, len(x), _SAMPLE)
    j = (i + rng.integers(1, len(x), _SAMPLE)) % len(x)
    return sum(np.square(column[i] - column[j]) for column in x.T)


def _scan(x: np.ndarray, interval: _Interval) -> _Bracket:
    def scan_rows(start: int) -> _Bracket:
        with np.errstate(over="ignore"):  # each thread has its own state
            return _count(_upper_block(x, start), interval)

    with ThreadPoolExecutor(cpu_count()) as threads:  # NumPy leaves the interpreter lock
        starts = range(0, len(x) - 1, _ROWS)
        parts = track_steps(threads.map(scan_rows, starts), len(starts), "Median distance")
        return _join(list(parts))


def _scan_line(x: np.ndarray, interval: _Interval) -> _Bracket:
    """The same for sorted numbers: only pairs near the interval are looked at one by one."""
    slack = _slack(x)
    i = np.arange(len(x))
    near = np.sqrt(interval.low) - slack if interval.low > 0 else -np.inf
    far = np.sqrt(interval.high) + slack
    first = np.maximum(np.searchsorted(x, x + near), i + 1)
    last = np.maximum(np.searchsorted(x, x + far, side="right"), first)
    counts = last - first

    def scan_rows(part: np.ndarray) -> _Bracket:
        repeats = counts[part]
        ends = np.cumsum(repeats)
        offsets = np.arange(ends[-1]) - np.repeat(ends - repeats, repeats)
        others = x[np.repeat(first[part], repeats) + offsets]
        squares = np.square(others - np.repeat(x[part], repeats))
        skipped = int((first[part] - part - 1).sum())
        return _count(squares, interval, skipped)

    cuts = np.flatnonzero(np.diff(np.cumsum(counts) // _KEPT)) + 1  # bounded memory
    return _join([scan_rows(part) for part in np.split(i, cuts)])


def _count(squares: np.ndarray, interval: _Interval, skipped: int = 0) -> _Bracket:
    """Where squares lie, and `skipped` ones that are known to be below."""
    low, high, expected = interval
    stride = ceil(1.5 * expected / _KEPT)
    from_low = squares >= low
    below = skipped + squares.size - int(np.count_nonzero(from_low))
    closed = squares[np.logical_and(from_low, squares <= high, out=from_low)]
    kept = closed[(closed > low) & (closed < high)]
    low_end = int(np.count_nonzero(closed == low))
    high_end = int(np.count_nonzero(closed == high)) if high > low else 0
    thinned = kept[::stride].copy()  # a view would hold all of it in memory
    return _Bracket(below, low_end, len(kept), high_end, thinned)


def _join(parts: list[_Bracket]) -> _Bracket:
    kept = np.concatenate([part.kept for part in parts])
    below, low_end, inside, high_end = np.array([part[:4] for part in parts]).sum(0).tolist()
    return _Bracket(below, low_end, inside, high_end, kept)


def _upper_block(x: np.ndarray, start: int) -> np.ndarray:
    """Squared distances of a few rows to all later ones; pairs i ≥ j are set to infinity."""
    rows = x[start : start + _ROWS]
    total = np.subtract.outer(rows[:, 0], x[start:, 0])
    np.square(total, out=total)
    for j in range(1, x.shape[1]):
        difference = np.subtract.outer(rows[:, j], x[start:, j])
        total += np.square(difference, out=difference)
    total[np.tril_indices(len(rows), m=total.shape[1])] = np.inf
    return total


def _pick(found: _Bracket, interval: _Interval, rank: int) -> float:
    position = rank - found.below - found.low
    if position < 0:
        return float(interval.low)
    if position >= found.inside:
        return float(interval.high)
    return float(np.partition(found.kept, position)[position])


def _traced_order_statistic(x: Float[Array, "n d"], rank: int) -> Float[Array, ""]:
    """The same by bisection: non-negative doubles are ordered as their bits are."""
    later = jnp.arange(x.shape[0])
    fixed = jax.lax.stop_gradient(x)

    def pairs_of_row(i: Array) -> Array:
        return jnp.where(later > i, squared_distances(fixed[i][None], fixed)[0], jnp.inf)

    def count_below(bound: Array) -> Array:
        return jax.lax.map(lambda i: jnp.sum(pairs_of_row(i) < bound), later).sum()

    def add_bit(step: Array, bits: Array) -> Array:
        candidate = bits | (jnp.int64(1) << (62 - step))
        bound = jax.lax.bitcast_convert_type(candidate, jnp.float64)
        return jnp.where(count_below(bound) <= rank, candidate, bits)

    bits = jax.lax.fori_loop(0, 63, add_bit, jnp.int64(0))
    value = jax.lax.bitcast_convert_type(bits, jnp.float64)

    def nearest_of_row(i: Array) -> tuple[Array, Array]:
        gaps = jnp.abs(pairs_of_row(i) - value)
        j = jnp.argmin(gaps)
        return gaps[j], j

    gaps, nearest = jax.lax.map(nearest_of_row, later)
    i = jnp.argmin(gaps)
    return jnp.sum((x[i] - x[nearest[i]]) ** 2)  # through the pair itself: it has a gradient
