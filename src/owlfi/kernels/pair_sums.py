"""Weighted sums over all pairs of two samples, in bounded memory, whatever the kernel.

Pairs are visited in tiles of half a million; each tile is summed and forgotten, in the backward
pass, too.
"""

from collections.abc import Callable
from math import ceil

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

Rows = Array | tuple[Array, ...]  # a matrix, or its columns
Tile = Callable[..., Array]  # Σ_j weights_j k(y_i, x_j) of two blocks

_LARGEST_SIDE = 512  # of a tile's rows
_PAIRS = 2**19  # of a tile: four megabytes stay in the cache
_DIFFERENCES = 2**24  # all coordinates of a tile's pairs may have to be held at once
_VECTOR = 8  # rows of whole vectors run up to half as fast again
_SHORT = 64  # a block too short for its filling to pay
_MOST_COLUMNS = 16


def sum_rows(tile: Tile, y: Rows, x: Rows, weights: Float[Array, " n"]) -> Float[Array, " m"]:
    """Σ_j weights_j k(y_i, x_j) for each i; a single tile is not divided."""
    if _count(y) * _count(x) <= _pairs(x):
        return tile(y, x, weights)
    side = min(_count(y), _LARGEST_SIDE)
    x_blocks = _weighted_blocks(x, weights, max(1, _pairs(x) // side))

    @jax.checkpoint
    def add(total: Array, y_block: Rows, block: tuple[Rows, Array]) -> Array:
        return total + tile(y_block, *block)

    def rows(y_block: Rows) -> Array:
        start = jnp.zeros(_count(y_block))
        return jax.lax.scan(lambda t, b: (add(t, y_block, b), None), start, x_blocks)[0]

    return jax.lax.map(rows, _blocks(y, side)).ravel()[: _count(y)]


def split_columns(rows: Float[Array, "n d"]) -> Rows:
    """Columns apart: strided reads cost a loop its vectors. Many would cost time to compile."""
    return tuple(rows.T) if rows.shape[1] <= _MOST_COLUMNS else rows


def join_columns(rows: Rows) -> Float[Array, "n d"]:
    """The inverse of `split_columns`."""
    return jnp.stack(rows, 1) if isinstance(rows, tuple) else rows


def sum_pairs(tile: Tile, y: Rows, x: Rows, weights: Float[Array, " n"]) -> Float[Array, ""]:
    """Σ_ij weights_i weights_j k(y_i, x_j) for y = x, perhaps in two forms, each pair once."""
    if _count(x) ** 2 <= _pairs(x):
        return weights @ tile(y, x, weights)
    side = min(_LARGEST_SIDE, int(_pairs(x) ** 0.5))
    y_blocks, x_blocks = (_weighted_blocks(rows, weights, side) for rows in (y, x))

    @jax.checkpoint
    def tile_sum(i: Array, j: Array) -> Array:
        y_block, y_weights = jax.tree.map(lambda a: a[i], y_blocks)
        x_block, x_weights = jax.tree.map(lambda a: a[j], x_blocks)
        twice = jnp.where(i == j, 1.0, 2.0)
        return twice * (y_weights @ tile(y_block, x_block, x_weights))

    first, second = np.triu_indices(len(x_blocks[1]))
    return jax.lax.map(lambda ij: tile_sum(*ij), (jnp.asarray(first), jnp.asarray(second))).sum()


def _pairs(x: Rows) -> int:
    coordinates = sum(leaf[0].size for leaf in jax.tree.leaves(x))
    return min(_PAIRS, _DIFFERENCES // coordinates)


def _weighted_blocks(rows: Rows, weights: Array, side: int) -> tuple[Rows, Rows]:
    return _blocks(rows, side), _blocks(weights, side, fill=0.0)


def _blocks(rows: Rows, side: int, fill: float | None = None) -> Rows:
    """Blocks of equal size, about `side`; the last is filled up with the first row or `fill`."""
    count = _count(rows)
    size = ceil(count / ceil(count / side))
    if size > _SHORT:
        size = _VECTOR * ceil(size / _VECTOR)
    blocks = ceil(count / size)

    def cut(a: Array) -> Array:
        extra = (blocks * size - count, *a.shape[1:])
        padding = jnp.broadcast_to(a[:1], extra) if fill is None else jnp.full(extra, fill)
        return jnp.concatenate([a, padding]).reshape(blocks, size, *a.shape[1:])

    return jax.tree.map(cut, rows)


def _count(rows: Rows) -> int:
    return len(jax.tree.leaves(rows)[0])
