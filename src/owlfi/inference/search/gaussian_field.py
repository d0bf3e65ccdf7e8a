"""Sums of Gaussians with their first two derivatives, all moments of the same exponentials."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float


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
    around = zeroth[:, None, None] * (_squared(y) - jnp.eye(d))
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
    pairs = gram * weights[:, None] * weights
    weighted = (pairs * towards).reshape(p, -1)
    crossed = weighted @ towards.swapaxes(1, 2).reshape(p, -1).T
    straight = jnp.einsum("aid,ibd->ab", slopes, jnp.tensordot(pairs, slopes, [[1], [1]]))
    return straight + crossed


def gaussian_gram(y: Float[Array, "m d"], x: Float[Array, "n d"]) -> Float[Array, "m n"]:
    """exp(-|y_i - x_j|²/2), its exponent as one product; rows should be centred near 0."""
    y_norm, x_norm = (-0.5 * jnp.sum(rows**2, 1, keepdims=True) for rows in (y, x))
    left = jnp.concatenate([y, y_norm, jnp.ones_like(y_norm)], 1)
    return jnp.exp(left @ jnp.concatenate([x, jnp.ones_like(x_norm), x_norm], 1).T)


def _squared(rows: Array) -> Float[Array, "n d d"]:
    return rows[:, :, None] * rows[:, None]
