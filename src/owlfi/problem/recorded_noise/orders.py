"""Integers, choices and permutations, from uniform coordinates."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from owlfi.problem.recorded_noise.kinds import EXPONENTIAL, UNIFORM

_PLAIN = np.random.default_rng(0)
_EXACT = 2**53  # whole numbers that a uniform coordinate can tell apart


def draw_integers(rng: Any, low: Any, high: Any, size: Any, dtype: Any, endpoint: bool) -> Any:
    """low + floor((high - low) v)."""
    low, high = (0, low) if high is None else (low, high)
    if rng._tape.traced:
        v = rng._tape.take(UNIFORM, rng._shape(size, (low, high)))
        return (low + jnp.floor((high + endpoint - low) * v)).astype(dtype)
    _PLAIN.integers(low, high, None, dtype, endpoint)  # raises as it should
    plain = not (np.ndim(low) or np.ndim(high))
    if plain and size is None and rng._single and high - low < _EXACT:
        whole = int(low) + int((int(high) + endpoint - int(low)) * rng._tape.take_one(UNIFORM))
        return np.dtype(dtype).type(whole)
    shape = rng._shape(size, (low, high))
    v, low, high = rng._tape.take(UNIFORM, shape), np.asarray(low), np.asarray(high)
    if int(np.max(high)) - int(np.min(low)) >= _EXACT:
        fine = rng._tape.take(UNIFORM, shape)
        return _draw_wide(v, fine, low, high, endpoint).astype(dtype).reshape(shape)[()]
    width = high - low + int(endpoint)
    return (low + np.floor(width * v).astype(np.int64)).astype(dtype)[()]


def _draw_wide(v: Any, fine: Any, low: Any, high: Any, endpoint: bool) -> np.ndarray:
    """In whole numbers of any size, from two coordinates."""
    bits = [(int(a * 2**32) << 32) + int(b * 2**32) for a, b in zip(v.flat, fine.flat, strict=True)]
    lows, highs = (np.broadcast_to(end, v.shape).ravel() for end in (low, high))
    ends = [(int(a), int(b) + endpoint) for a, b in zip(lows, highs, strict=True)]
    return np.array([a + ((b - a) * bit >> 64) for (a, b), bit in zip(ends, bits, strict=True)])


def choose(rng: Any, a: Any, size: Any, replace: bool, p: Any, axis: int) -> Any:
    """Entries of an array, or numbers below one, with replacement or without."""
    items = None if np.ndim(a) == 0 else np.asarray(a)
    easy = replace and p is None and (isinstance(a, int) and a > 0 if items is None else items.size)
    if not (rng._tape.traced or easy):
        _PLAIN.choice(a, size, replace, p, axis)  # raises as it should
    count = int(a) if items is None else items.shape[axis]
    index = (_choose_again if replace else _choose_once)(rng, count, size, p)
    if items is None:
        return index
    return items[index] if items.ndim == 1 else np.take(items, index, axis=axis)


def _choose_again(rng: Any, count: int, size: Any, p: Any) -> Any:
    if p is None:
        return rng.integers(0, count, size=size)
    xp = rng._tape.numpy
    edges = xp.cumsum(xp.asarray(p, float))
    v = rng._tape.take(UNIFORM, rng._shape(size))
    index = xp.searchsorted(edges / edges[-1], v, side="right")
    return index if index.shape or rng._tape.traced else index[()]


def _choose_once(rng: Any, count: int, size: Any, p: Any) -> Any:
    shape = rng._shape(size)
    wanted = int(np.prod(shape, dtype=int))
    if p is None:
        chosen = _deal(rng, count, wanted)
    else:  # the first of exponential waits: the same law as one draw after the other
        with np.errstate(divide="ignore"):
            waits = rng._line(EXPONENTIAL, count) / np.asarray(p, float)
        chosen = np.argsort(waits, kind="stable")
    return chosen[:wanted].reshape(shape)[()]


def _deal(rng: Any, count: int, wanted: int) -> np.ndarray:
    """The first cards of a pack, in as many coordinates (Fisher and Yates)."""
    pack = np.arange(count)
    for i, v in enumerate(rng._line(UNIFORM, wanted)):
        j = i + int((count - i) * v)
        pack[i], pack[j] = pack[j], pack[i]
    return pack


def _draw_order(rng: Any, count: int) -> Any:
    """A permutation: that which sorts uniform numbers."""
    return rng._tape.numpy.argsort(rng._line(UNIFORM, count))


def permute(rng: Any, x: Any, axis: int) -> Any:
    """A permutation of numbers below one, or of the entries along an axis."""
    if np.ndim(x) == 0:
        return _draw_order(rng, int(x))
    items = rng._tape.numpy.asarray(x)
    return rng._tape.numpy.take(items, _draw_order(rng, items.shape[axis]), axis=axis)


def permute_each(rng: Any, x: Any, axis: int | None, out: Any) -> Any:
    """Each line along an axis in an order of its own; all entries where there is none."""
    items = np.asarray(x)
    if axis is None:
        mixed = items.ravel()[_draw_order(rng, items.size)].reshape(items.shape)
    else:
        keys = np.moveaxis(items, axis, -1)
        order = np.argsort(rng._line(UNIFORM, items.size).reshape(keys.shape), -1)
        mixed = np.moveaxis(np.take_along_axis(keys, order, -1), -1, axis)
    if out is None:
        return mixed
    out[...] = mixed
    return out


def shuffle(rng: Any, x: Any, axis: int) -> None:
    """In place."""
    if rng._tape.traced:
        raise NotImplementedError("rng.shuffle changes an array, and runs on the host")
    if isinstance(x, np.ndarray):
        x[...] = np.take(x, _draw_order(rng, x.shape[axis]), axis=axis)
        return
    mixed = [x[i] for i in _draw_order(rng, len(x))]
    for i, item in enumerate(mixed):
        x[i] = item
