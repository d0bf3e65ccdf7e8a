"""Weighted sums of a kernel over all pairs of two samples, in bounded memory.

Pairs are visited in tiles of about a million; each tile is summed and forgotten, in the backward
pass, too.
"""

from collections.abc import Callable
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

Tile = Callable[[Array, Array], Array]

_LARGEST_SIDE = 1024  # of a tile's rows
_PAIRS = 5 * 2**18  # of a tile: ten megabytes stay in the cache
_DIFFERENCES = 2**24  # all coordinates of a tile's pairs may have to be held at once
_VECTOR = 8  # rows of whole vectors run up to half as fast again
_SHORT = 64  # a block too short for its filling to pay
_FEW_COORDINATES = 1
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
    return _rows(kernel.gram, y, x, weights)


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
    return _triangle(kernel.gram, x, x, weights)


def _gaussian(
    kernel: SquaredExponential, y: Array, x: Array, total: Callable[[Tile, Array, Array], Array]
) -> Array:
    """Sums of exp(-r²/2) by the fastest way that keeps the digits.

    Beyond a few coordinates the exponent is best one matrix product, y·x - |y|²/2 - |x|²/2; it
    cancels by about 1e-16 times the largest squared norm, so far-flung data take differences.
    """
    if x.shape[1] <= _FEW_COORDINATES:
        return total(kernel.gram, y, x)
    check_coordinates(kernel, x.shape[1])
    center = jax.lax.stop_gradient(x.mean(0))
    y_scaled, x_scaled = ((a - center) / kernel.lengthscale for a in (y, x))
    y_norm, x_norm = (jnp.sum(a**2, 1, keepdims=True) for a in (y_scaled, x_scaled))
    y_features = jnp.concatenate([y_scaled, -0.5 * y_norm, jnp.ones_like(y_norm)], 1)
    x_features = jnp.concatenate([x_scaled, jnp.ones_like(x_norm), -0.5 * x_norm], 1)
    return jax.lax.cond(
        jnp.maximum(y_norm.max(), x_norm.max()) < _LARGE_SQUARED_NORM,
        lambda: total(lambda a, b: jnp.exp(a @ b.T), y_features, x_features),
        lambda: total(kernel.gram, y, x),
    )


def _rows(tile: Tile, y: Array, x: Array, weights: Array) -> Array:
    pairs = _pairs(x.shape[1])
    side = min(y.shape[0], _LARGEST_SIDE, int(pairs**0.5))
    x_blocks = _blocks(x, pairs // side), _blocks(weights, pairs // side, fill=0.0)

    @jax.checkpoint
    def add(total: Array, y_block: Array, block: tuple[Array, Array]) -> Array:
        return total + tile(y_block, block[0]) @ block[1]

    def rows(y_block: Array) -> Array:
        start = jnp.zeros(y_block.shape[0])
        return jax.lax.scan(lambda t, b: (add(t, y_block, b), None), start, x_blocks)[0]

    return jax.lax.map(rows, _blocks(y, side)).ravel()[: y.shape[0]]


def _triangle(tile: Tile, y: Array, x: Array, weights: Array) -> Array:
    """The full double sum from the tiles on and above the diagonal."""
    side = min(_LARGEST_SIDE, int(_pairs(x.shape[1]) ** 0.5))
    y_blocks, x_blocks = _blocks(y, side), _blocks(x, side)
    w_blocks = _blocks(weights, side, fill=0.0)

    @jax.checkpoint
    def tile_sum(i: Array, j: Array) -> Array:
        twice = jnp.where(i == j, 1.0, 2.0)
        return twice * (w_blocks[i] @ (tile(y_blocks[i], x_blocks[j]) @ w_blocks[j]))

    first, second = np.triu_indices(len(w_blocks))
    return jax.lax.map(lambda ij: tile_sum(*ij), (jnp.asarray(first), jnp.asarray(second))).sum()


def _pairs(coordinates: int) -> int:
    return min(_PAIRS, _DIFFERENCES // coordinates)


def _blocks(rows: Array, side: int, fill: float | None = None) -> Array:
    """Blocks of equal size, about `side`; the last is filled up with the first row or `fill`."""
    size = ceil(rows.shape[0] / ceil(rows.shape[0] / side))
    if size > _SHORT:
        size = _VECTOR * ceil(size / _VECTOR)
    count = ceil(rows.shape[0] / size)
    extra = (count * size - rows.shape[0], *rows.shape[1:])
    padding = jnp.broadcast_to(rows[:1], extra) if fill is None else jnp.full(extra, fill)
    return jnp.concatenate([rows, padding]).reshape(count, size, *rows.shape[1:])
