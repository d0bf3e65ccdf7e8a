"""Intervals as the real line, coordinate by coordinate, so that no step leaves them.

(low, high) goes to the line by the logit, (low, ∞) and (-∞, high) by the log, the line by itself.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from owlfi._tools.ranks import lift

Ends = tuple[Float[Array, " p"], Float[Array, " p"]]


@jax.jit  # one program where it is called on its own
def to_real(theta: Float[Array, "... p"], ends: Ends) -> Float[Array, "... p"]:
    """The real numbers of points strictly inside the intervals.

    >>> to_real(jnp.array([2.0, 7.0]), (jnp.array([0.0, -jnp.inf]), jnp.array([4.0, jnp.inf])))
    Array([0., 7.], dtype=float64)
    """
    low, high = (lift(end, theta.ndim) for end in ends)
    both, above, below = _kinds(low, high)
    from_low = jnp.where(both | above, theta - jnp.where(jnp.isfinite(low), low, 0), 1.0)
    to_high = jnp.where(both | below, jnp.where(jnp.isfinite(high), high, 0) - theta, 1.0)
    bounded = jnp.log(from_low) - jnp.log(to_high)  # one of them is 0 where an end is infinite
    return jnp.where(both | above | below, bounded, theta)


@jax.jit
def from_real(v: Float[Array, "... p"], ends: Ends) -> Float[Array, "... p"]:
    """The inverse of `to_real`.

    >>> from_real(jnp.zeros(2), (jnp.array([0.0, -jnp.inf]), jnp.array([4.0, jnp.inf])))
    Array([2., 0.], dtype=float64)
    """
    low, high = (lift(end, v.ndim) for end in ends)
    both, above, below = _kinds(low, high)
    width = jnp.where(both, high - low, 1.0)
    inside = low + width * jax.nn.sigmoid(v)
    grown = jnp.exp(jnp.where(above | below, jnp.where(below, -v, v), 0.0))
    half = jnp.where(above, low + grown, high - grown)
    return jnp.where(both, inside, jnp.where(above | below, half, v))


def log_slope(v: Float[Array, "... p"], ends: Ends) -> Float[Array, "... p"]:
    """The log of the derivative of `from_real`, which turns densities of theta into those of v."""
    low, high = (lift(end, v.ndim) for end in ends)
    both, above, below = _kinds(low, high)
    width = jnp.where(both, high - low, 1.0)
    inside = jnp.log(width) + jax.nn.log_sigmoid(v) + jax.nn.log_sigmoid(-v)
    return jnp.where(both, inside, jnp.where(above, v, jnp.where(below, -v, 0.0)))


def _kinds(
    low: Float[Array, "... p"], high: Float[Array, "... p"]
) -> tuple[Bool[Array, "... p"], Bool[Array, "... p"], Bool[Array, "... p"]]:
    """Where both ends are finite, only the lower, only the upper."""
    from_low, to_high = jnp.isfinite(low), jnp.isfinite(high)
    return from_low & to_high, from_low & ~to_high, to_high & ~from_low
