"""How the squared MMD bends as simulations move: its derivatives by y, along some directions.

Of sums of Gaussians the first two derivatives are moments of the same exponentials.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from owlfi.kernels import Kernel
from owlfi.kernels.radial import gaussian_features
from owlfi.mmd import own_factors, simulated_term

_PAIRS = 2**21  # whose exponentials may be held
_FEW_COORDINATES = 8  # beyond, all second moments cost more than some directions


class Curved(NamedTuple):
    """The squared MMD less its data term, as a function f of the simulations y."""

    value: Float[Array, ""]
    slope: Float[Array, "m d"]
    gradient: Float[Array, " p"]
    """Σ ∂_a y · ∂f/∂y."""
    curvature: Float[Array, "p p"]
    """Σ ∂_a y · ∂²f/∂y² · ∂_b y."""


def curve(
    k: Kernel,
    y: Float[Array, "m d"],
    directions: Float[Array, "p m d"],
    x: Float[Array, "n d"],
    w: Float[Array, " m"],
    v: Float[Array, " n"],
    unbiased: bool,
) -> Curved:
    """Its value, slope and curvature along the directions ∂_a y in which all rows move."""
    to_gaussian = k.gaussian_coordinates()
    held = y.shape[0] * max(y.shape[0], x.shape[0])
    if to_gaussian is not None and y.shape[1] <= _FEW_COORDINATES and held <= _PAIRS:
        return _curve_gaussian(to_gaussian, y, directions, x, w, v, unbiased)
    value_and_slope = jax.value_and_grad(lambda rows: simulated_term(k, rows, x, w, v, unbiased))
    (value, slope), tangent = jax.linearize(value_and_slope, y)
    changes = jax.lax.map(lambda t: tangent(t)[1], directions)
    return _along(value, slope, directions, jnp.tensordot(directions, changes, [[1, 2], [1, 2]]))


def _along(value: Array, slope: Array, directions: Array, curvature: Array) -> Curved:
    return Curved(value, slope, jnp.tensordot(directions, slope, 2), curvature)


def _curve_gaussian(
    to_gaussian: Callable[[Array], Array],
    y: Array,
    directions: Array,
    x: Array,
    w: Array,
    v: Array,
    unbiased: bool,
) -> Curved:
    """The same by moments: all directions share the exponentials."""
    center = x.mean(0, keepdims=True)
    y, back = jax.vjp(lambda rows: to_gaussian(rows - center), y)
    x, directions = to_gaussian(x - center), jax.vmap(to_gaussian)(directions)
    gram = gaussian_gram(y, y)
    own = gaussian_field(gram, y, y, w)
    data = gaussian_field(gaussian_gram(y, x), y, x, v)
    pairs, single = own_factors(len(w), unbiased)  # k(y, y) = 1
    value = w @ (pairs * own.value - 2 * data.value) - single
    slope = 2 * w[:, None] * (pairs * own.gradient - data.gradient)
    blocks = 2 * w[:, None, None] * (pairs * own.hessian - data.hessian)
    around = jnp.einsum("aid,ide,bie->ab", directions, blocks, directions)
    mixed = 2 * pairs * mixed_curvature(gram, y, w, directions)
    return Curved(value, back(slope)[0], jnp.tensordot(directions, slope, 2), around + mixed)


class Field(NamedTuple):
    """A function of points in d dimensions, and its derivatives at each of m points."""

    value: Float[Array, " m"]
    gradient: Float[Array, "m d"]
    hessian: Float[Array, "m d d"]


def gaussian_field(
    gram: Float[Array, "m n"],
    y: Float[Array, "m d"],
    x: Float[Array, "n d"],
    shares: Float[Array, " n"],
) -> Field:
    """Of y ↦ Σ_j v_j exp(-|y - x_j|²/2), given all exponentials (`gaussian_gram`).

    With the moments S_0 = Σ v k, S_1 = Σ v k x and S_2 = Σ v k x xᵀ, the gradient is S_1 - S_0 y
    and the Hessian S_2 - S_1 yᵀ - y S_1ᵀ + S_0 (y yᵀ - I).
    """
    m, d = y.shape
    powers = jnp.concatenate([jnp.ones((len(x), 1)), x, _squared(x).reshape(-1, d * d)], 1)
    moments = gram @ (shares[:, None] * powers)
    zeroth, first, second = moments[:, 0], moments[:, 1 : 1 + d], moments[:, 1 + d :]
    mixed = first[:, :, None] * y[:, None]
    around = zeroth[:, None, None] * (_squared(y) - jnp.eye(d)[None])
    hessian = second.reshape(m, d, d) - mixed - mixed.swapaxes(1, 2) + around
    return Field(zeroth, first - zeroth[:, None] * y, hessian)


def mixed_curvature(
    gram: Float[Array, "m m"],
    y: Float[Array, "m d"],
    weights: Float[Array, " m"],
    slopes: Float[Array, "p m d"],
) -> Float[Array, "p p"]:
    """Σ_ij w_i w_j ∂_a y_i · ∂₁∂₂k(y_i, y_j) · ∂_b y_j for k = exp(-|y_i - y_j|²/2)."""
    p = len(slopes)
    along = slopes @ y.T  # ∂_a y_i · y_j
    towards = jnp.diagonal(along, axis1=1, axis2=2)[:, :, None] - along  # ∂_a y_i · (y_i - y_j)
    pairs = gram * weights[:, None] * weights[None]
    weighted = (pairs[None] * towards).reshape(p, -1)
    crossed = weighted @ towards.swapaxes(1, 2).reshape(p, -1).T
    straight = jnp.einsum("aid,ibd->ab", slopes, jnp.tensordot(pairs, slopes, [[1], [1]]))
    return straight + crossed


def gaussian_gram(y: Float[Array, "m d"], x: Float[Array, "n d"]) -> Float[Array, "m n"]:
    """exp(-|y_i - x_j|²/2), its exponent as one product; rows should be centred near 0."""
    left, right = gaussian_features(y, x)
    return jnp.exp(left @ right.T)


def _squared(rows: Array) -> Float[Array, "n d d"]:
    return rows[:, :, None] * rows[:, None]
