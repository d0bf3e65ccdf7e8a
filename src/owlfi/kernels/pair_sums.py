"""Weighted sums of a kernel over all pairs of two samples, in bounded memory.

Pairs are visited in tiles of half a million; each tile is summed and forgotten, in the backward
pass, too.
"""

from collections.abc import Callable
from functools import partial
from math import ceil

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from owlfi.kernels import (
    Constant,
    Kernel,
    ScaledKernel,
    SquaredExponential,
    SumKernel,
    check_coordinates,
)

Rows = Array | tuple[Array, ...]  # a matrix, or its columns
Tile = Callable[..., Array]  # Σ_j weights_j k(y_i, x_j) of two blocks

_LARGEST_SIDE = 512  # of a tile's rows
_PAIRS = 2**19  # of a tile: four megabytes stay in the cache
_DIFFERENCES = 2**24  # all coordinates of a tile's pairs may have to be held at once
_VECTOR = 8  # rows of whole vectors run up to half as fast again
_SHORT = 64  # a block too short for its filling to pay
_FEW_COORDINATES = 1
_MOST_COLUMNS = 16
_LARGE_SQUARED_NORM = 1e3


@eqx.filter_jit
def row_sums(
    kernel: Kernel, y: Float[Array, "m d"], x: Float[Array, "n d"], weights: Float[Array, " n"]
) -> Float[Array, " m"]:
    """Σ_j weights_j k(y_i, x_j) for each i."""
    match kernel:
        case SumKernel():
            return sum((row_sums(k, y, x, weights) for k in kernel.terms), jnp.zeros(y.shape[0]))
        case ScaledKernel():
            return kernel.factor * row_sums(kernel.kernel, y, x, weights)
        case Constant():
            return jnp.full(y.shape[0], kernel.value * weights.sum())
        case SquaredExponential():
            return _gaussian(kernel, y, x, lambda tile, a, b: _rows(tile, a, b, weights))
    return _rows(partial(_by_gram, kernel), _columns(y), _columns(x), weights)


@eqx.filter_jit
def self_sum(
    kernel: Kernel, x: Float[Array, "n d"], weights: Float[Array, " n"]
) -> Float[Array, ""]:
    """Σ_ij weights_i weights_j k(x_i, x_j), each pair visited once."""
    match kernel:
        case SumKernel():
            return sum((self_sum(k, x, weights) for k in kernel.terms), jnp.zeros(()))
        case ScaledKernel():
            return kernel.factor * self_sum(kernel.kernel, x, weights)
        case Constant():
            return kernel.value * weights.sum() ** 2
        case SquaredExponential():
            return _gaussian(kernel, x, x, lambda tile, a, b: _triangle(tile, a, b, weights))
    return _triangle(partial(_by_gram, kernel), _columns(x), _columns(x), weights)


def _gaussian(
    kernel: SquaredExponential, y: Array, x: Array, total: Callable[[Tile, Rows, Rows], Array]
) -> Array:
    """Sums of exp(-r²/2) by the fastest way that keeps the digits.

    Beyond a few coordinates the exponent is best one matrix product, y·x - |y|²/2 - |x|²/2; it
    cancels by about 1e-16 times the largest squared norm, so far-flung data take differences.
    """
    by_gram = partial(total, partial(_by_gram, kernel), y, x)
    if x.shape[1] <= _FEW_COORDINATES:
        return by_gram()
    check_coordinates(kernel, x.shape[1])
    center = jax.lax.stop_gradient(x.mean(0))
    y_scaled, x_scaled = ((a - center) / kernel.lengthscale for a in (y, x))
    y_norm, x_norm = (jnp.sum(a**2, 1, keepdims=True) for a in (y_scaled, x_scaled))
    y_features = jnp.concatenate([y_scaled, -0.5 * y_norm, jnp.ones_like(y_norm)], 1)
    x_features = jnp.concatenate([x_scaled, jnp.ones_like(x_norm), -0.5 * x_norm], 1)
    return jax.lax.cond(
        jnp.maximum(y_norm.max(), x_norm.max()) < _LARGE_SQUARED_NORM,
        lambda: total(_by_product, y_features, x_features),
        by_gram,
    )


def _by_product(y: Array, x: Array, weights: Array) -> Array:
    return jnp.sum(jnp.exp(y @ x.T) * weights, 1)


def _by_gram(kernel: Kernel, y: Rows, x: Rows, weights: Array) -> Array:
    gram = kernel.gram(*(jnp.stack(a, 1) if isinstance(a, tuple) else a for a in (y, x)))
    in_one_loop = isinstance(kernel, SquaredExponential)  # others vectorise worse with the sum
    return jnp.sum(gram * weights, 1) if in_one_loop else gram @ weights


def _columns(rows: Array) -> Rows:
    """Columns apart: strided reads cost a loop its vectors. Many would cost time to compile."""
    return tuple(rows.T) if rows.shape[1] <= _MOST_COLUMNS else rows


def _rows(tile: Tile, y: Rows, x: Rows, weights: Array) -> Array:
    side = min(_count(y), _LARGEST_SIDE)
    x_blocks = _weighted_blocks(x, weights, max(1, _pairs(x) // side))

    @jax.checkpoint
    def add(total: Array, y_block: Rows, block: tuple[Rows, Array]) -> Array:
        return total + tile(y_block, *block)

    def rows(y_block: Rows) -> Array:
        start = jnp.zeros(_count(y_block))
        return jax.lax.scan(lambda t, b: (add(t, y_block, b), None), start, x_blocks)[0]

    return jax.lax.map(rows, _blocks(y, side)).ravel()[: _count(y)]


def _triangle(tile: Tile, y: Rows, x: Rows, weights: Array) -> Array:
    """The full double sum from the tiles on and above the diagonal."""
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
