"""How the squared MMD bends as simulations move: its derivatives by y, along some directions.

Of sums of Gaussians the value and both derivatives come from the same exponentials.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from owlfi.kernels import Kernel
from owlfi.kernels.radial import gaussian_features
from owlfi.mmd import own_factors, simulated_term

_HELD = 2**22  # numbers that may be held: one for each pair of rows and direction
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
    function, inner = k.mapped()
    to_gaussian = inner.gaussian_coordinates()
    held = len(directions) * y.shape[0] * max(y.shape[0], x.shape[0])
    if to_gaussian is not None and held <= _HELD:
        linear = to_gaussian
        return _curve_gaussian(
            lambda rows: linear(function(rows)), y, directions, x, w, v, unbiased
        )
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
    """The same where k(x, y) = exp(-|f(x) - f(y)|²/2): all directions share the exponentials."""
    x = to_gaussian(x)
    center = x.mean(0, keepdims=True)

    def place(rows: Array) -> Array:
        return to_gaussian(rows) - center

    (z, back), x = jax.vjp(place, y), x - center
    moves = jax.vmap(jax.linearize(place, y)[1])(directions)
    gram, bend = gaussian_gram(z, z), _choose_bend(z)
    own, data = bend(gram, z, moves, z, w, w), bend(gaussian_gram(z, x), z, moves, x, w, v)
    pairs, single = own_factors(len(w), unbiased)  # k(y, y) = 1
    value = pairs * own.value - 2 * data.value - single
    slope = 2 * (pairs * own.slope - data.slope)
    mixed = _mix(w[:, None] * gram * w[None], z, moves)
    curvature = 2 * (pairs * (own.curvature + mixed) - data.curvature)
    bent = jax.linearize(jax.grad(lambda rows: jnp.vdot(slope, place(rows))), y)[1]  # by f''
    curvature = curvature + jnp.tensordot(directions, jax.vmap(bent)(directions), [[1, 2], [1, 2]])
    return _along(value, back(slope)[0], directions, curvature)


class Bent(NamedTuple):
    """Σ w_i v_j k(z_i, x_j), k = exp(-|z_i - x_j|²/2), and its derivatives by z along moves ∂_a z.

    With δ_a = ∂_a z_i · (z_i - x_j) the curvature is Σ w_i v_j k (δ_a δ_b - ∂_a z_i · ∂_b z_i).
    """

    value: Float[Array, ""]
    slope: Float[Array, "m d"]
    curvature: Float[Array, "p p"]


Bend = Callable[[Array, Array, Array, Array, Array, Array], Bent]


def _choose_bend(z: Float[Array, "m d"]) -> Bend:
    return _bend_by_moments if z.shape[1] <= _FEW_COORDINATES else _bend_by_directions


def _bend_by_directions(
    gram: Float[Array, "m n"],
    z: Float[Array, "m d"],
    moves: Float[Array, "p m d"],
    x: Float[Array, "n d"],
    w: Float[Array, " m"],
    v: Float[Array, " n"],
) -> Bent:
    """With all δ, for rows of many coordinates."""
    pairs = w[:, None] * gram * v[None]
    sums = pairs.sum(1)
    towards = jnp.sum(moves * z[None], 2)[:, :, None] - moves @ x.T
    straight = jnp.einsum("aid,i,bid->ab", moves, sums, moves)
    curvature = _multiply(towards, pairs, towards) - straight
    return Bent(sums.sum(), pairs @ x - sums[:, None] * z, curvature)


def _bend_by_moments(
    gram: Float[Array, "m n"],
    z: Float[Array, "m d"],
    moves: Float[Array, "p m d"],
    x: Float[Array, "n d"],
    w: Float[Array, " m"],
    v: Float[Array, " n"],
) -> Bent:
    """With S_0 = Σ v k, S_1 = Σ v k x and S_2 = Σ v k x xᵀ, for rows of few coordinates.

    The gradient at z_i is S_1 - S_0 z, the Hessian S_2 - S_1 zᵀ - z S_1ᵀ + S_0 (z zᵀ - I).
    """
    m, d = z.shape
    powers = jnp.concatenate([jnp.ones((len(x), 1)), x, _squared(x).reshape(-1, d * d)], 1)
    moments = gram @ (v[:, None] * powers)
    zeroth, first, second = moments[:, 0], moments[:, 1 : 1 + d], moments[:, 1 + d :]
    crossed = first[:, :, None] * z[:, None]
    around = zeroth[:, None, None] * (_squared(z) - jnp.eye(d)[None])
    hessian = second.reshape(m, d, d) - crossed - crossed.swapaxes(1, 2) + around
    curvature = jnp.einsum("aid,ide,bie->ab", moves, w[:, None, None] * hessian, moves)
    return Bent(w @ zeroth, w[:, None] * (first - zeroth[:, None] * z), curvature)


def _mix(
    pairs: Float[Array, "m m"], z: Float[Array, "m d"], moves: Float[Array, "p m d"]
) -> Float[Array, "p p"]:
    """Σ_ij w_i w_j ∂_a z_i · ∂₁∂₂k(z_i, z_j) · ∂_b z_j, given w_i w_j k(z_i, z_j)."""
    along = moves @ z.T  # ∂_a z_i · z_j
    towards = jnp.diagonal(along, axis1=1, axis2=2)[:, :, None] - along  # ∂_a z_i · (z_i - z_j)
    straight = jnp.einsum("aid,ibd->ab", moves, jnp.tensordot(pairs, moves, [[1], [1]]))
    return straight + _multiply(towards, pairs, towards.swapaxes(1, 2))


def _multiply(
    a: Float[Array, "p m n"], pairs: Float[Array, "m n"], b: Float[Array, "p m n"]
) -> Float[Array, "p p"]:
    return (a * pairs[None]).reshape(len(a), -1) @ b.reshape(len(b), -1).T


def gaussian_gram(y: Float[Array, "m d"], x: Float[Array, "n d"]) -> Float[Array, "m n"]:
    """exp(-|y_i - x_j|²/2), its exponent as one product; rows should be centred near 0."""
    left, right = gaussian_features(y, x)
    return jnp.exp(jnp.minimum(left @ right.T, 0.0))


def _squared(rows: Array) -> Float[Array, "n d d"]:
    return rows[:, :, None] * rows[:, None]
