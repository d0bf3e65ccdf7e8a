"""u as a tape: draws are taken from it in their order, and those beyond its end from a stream."""

from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special

from owlfi.problem.recorded_noise.kinds import (
    BELOW_ONE,
    KINDS,
    UNIFORM,
    Block,
    convert,
    convert_one,
)

Shape = tuple[int, ...]
Note = Callable[[str, int], None]


class Tape:
    """The coordinates u (s,) of one run on the host, or (m, s) of m rows that run side by side.

    note: is told the kind and number of all draws of a row, in dry runs.
    """

    numpy, special = np, scipy.special
    traced = False

    def __init__(self, u: np.ndarray, blocks: tuple[Block, ...], note: Note | None = None):
        self.rows = u.shape[:-1]
        self.beyond = 0
        """Draws of a row that u had no place for."""
        self._u = np.ascontiguousarray(u, float)
        self._kinds, self._ends = _unroll(blocks)
        self._position = 0
        self._note = note
        self._streams: list[np.random.Generator] = []

    def take_one(self, kind: str) -> float:
        """The next draw of a single run, at once: loops make many of them."""
        if self._note is not None:
            self._note(kind, 1)
        here, self._position = self._position, self._position + 1
        if here >= len(self._kinds):
            self.beyond += 1
            return float(KINDS[kind].draw(self._open_streams()[0], None))
        value = float(self._u[here])
        if self._kinds[here] != kind:
            value = convert_one(value, self._kinds[here], kind)
        return min(value, BELOW_ONE) if kind == UNIFORM else value

    def take(self, kind: str, shape: Shape) -> np.ndarray:
        """The next draws in an array of its own, whose leading axis is that of the rows."""
        count = prod(shape[len(self.rows) :])
        if self._note is not None:
            self._note(kind, count)
        start, stop = self._position, self._position + count
        self._position = stop
        if self._has(kind, start, stop):
            values = self._u[..., start:stop].copy()
        else:
            values = self._piece_together(kind, start, stop)
        values = np.minimum(values, BELOW_ONE, out=values) if kind == UNIFORM else values
        return values.reshape(shape)

    def _has(self, kind: str, start: int, stop: int) -> bool:
        """Whether all of them are of this kind."""
        inside = start < stop <= len(self._kinds)
        return inside and self._kinds[start] == kind and stop <= self._ends[start]

    def _piece_together(self, kind: str, start: int, stop: int) -> np.ndarray:
        """Of blocks of other kinds, and of the stream beyond the end of u."""
        pieces = [self._u[..., :0]]
        while start < min(stop, len(self._kinds)):
            end = min(stop, self._ends[start])
            pieces.append(convert(self._u[..., start:end], self._kinds[start], kind))
            start = end
        if start < stop:
            self.beyond += stop - start
            drawn = [KINDS[kind].draw(stream, stop - start) for stream in self._open_streams()]
            pieces.append(np.stack(drawn).reshape(*self.rows, -1))
        return np.concatenate(pieces, -1)

    def _open_streams(self) -> list[np.random.Generator]:
        """One for each row: independent of u for all purposes, but fixed by it."""
        if not self._streams:
            self._streams = [_seed_stream(row) for row in np.atleast_2d(self._u)]
        return self._streams


class TracedTape:
    """The coordinates u (s,) of one run inside JAX, where the draws never change."""

    numpy, special = jnp, jax.scipy.special
    traced = True
    rows: Shape = ()

    def __init__(self, u: Any, blocks: tuple[Block, ...]):
        self._u = u
        self._kinds, self._ends = _unroll(blocks)
        self._position = 0

    def take_one(self, kind: str) -> Any:
        """The next draw."""
        return self.take(kind, ())

    def take(self, kind: str, shape: Shape) -> Any:
        """The next draws; LookupError where u has none of this kind there."""
        start, stop = self._position, self._position + prod(shape)
        self._position = stop
        if stop > len(self._kinds) or any(own != kind for own in self._kinds[start:stop]):
            raise LookupError(f"u has no {kind} draws at {start}:{stop}; run it on the host")
        return self._u[start:stop].reshape(shape)


class AbstractTape:
    """Numbers without values, to see inside JAX which are drawn.

    seed: a traced number, from which they come.
    most: times that numbers are taken; a loop that takes more is no program for JAX.
    """

    numpy, special = jnp, jax.scipy.special
    traced = True
    rows: Shape = ()

    def __init__(self, seed: Any, note: Note, most: float):
        self._seed = seed
        self._note = note
        self._left = most

    def take_one(self, kind: str) -> Any:
        """A number that is not known."""
        return self.take(kind, ())

    def take(self, kind: str, shape: Shape) -> Any:
        """Numbers that are not known; OverflowError where they are taken too often."""
        self._left -= 1
        if self._left < 0:
            raise OverflowError("more draws than a program of JAX should make; run it on the host")
        self._note(kind, prod(shape))
        return jnp.full(shape, self._seed)


AnyTape = Tape | TracedTape | AbstractTape


def _seed_stream(u: np.ndarray) -> np.random.Generator:
    digest = blake2b(u.tobytes(), digest_size=16).digest()
    return np.random.default_rng(int.from_bytes(digest, "little"))


@lru_cache(maxsize=64)
def _unroll(blocks: tuple[Block, ...]) -> tuple[list[str], list[int]]:
    """The kind of each place, and where its block ends."""
    kinds: list[str] = []
    ends: list[int] = []
    for kind, count in blocks:
        kinds += [kind] * count
        ends += [len(kinds)] * count
    return kinds, ends
