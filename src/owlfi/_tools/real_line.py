"""Intervals as the real line, coordinate by coordinate, so that no step leaves them.

(low, high) goes to the line by the logit, (low, ∞) and (-∞, high) by the log, the line by itself.
"""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float
from scipy.special import expit, log_expit

from owlfi._tools.arrays import as_jax, numpy_for

Ends = tuple[Float[Array, " p"], Float[Array, " p"]]


def to_real(theta: Float[Array, "... p"], ends: Ends) -> Float[Array, "... p"]:
    """The real numbers of points strictly inside the intervals.

    >>> import jax.numpy as jnp
    >>> to_real(jnp.array([2.0, 7.0]), (jnp.array([0.0, -jnp.inf]), jnp.array([4.0, jnp.inf])))
    Array([0., 7.], dtype=float64)
    """
    return _on_host_or_traced(_to_real, theta, ends)


def _to_real(xp: Any, theta: Any, low: Any, high: Any) -> Any:
    both, above, below = _kinds(xp, low, high)
    from_low = xp.where(both | above, theta - xp.where(xp.isfinite(low), low, 0), 1.0)
    to_high = xp.where(both | below, xp.where(xp.isfinite(high), high, 0) - theta, 1.0)
    bounded = xp.log(from_low) - xp.log(to_high)  # one of them is 0 where an end is infinite
    return xp.where(both | above | below, bounded, theta)


def from_real(v: Float[Array, "... p"], ends: Ends) -> Float[Array, "... p"]:
    """The inverse of `to_real`.

    >>> import jax.numpy as jnp
    >>> from_real(jnp.zeros(2), (jnp.array([0.0, -jnp.inf]), jnp.array([4.0, jnp.inf])))
    Array([2., 0.], dtype=float64)
    """
    return _on_host_or_traced(_from_real, v, ends)


def _from_real(xp: Any, v: Any, low: Any, high: Any) -> Any:
    both, above, below = _kinds(xp, low, high)
    width = xp.where(both, high - low, 1.0)
    inside = low + width * (expit(v) if xp is np else jax.nn.sigmoid(v))
    grown = xp.exp(xp.where(above | below, xp.where(below, -v, v), 0.0))
    half = xp.where(above, low + grown, high - grown)
    return xp.where(both, inside, xp.where(above | below, half, v))


def log_slope(v: Float[Array, "... p"], ends: Ends) -> Float[Array, "... p"]:
    """The log of the derivative of `from_real`, which turns densities of theta into those of v."""
    return _on_host_or_traced(_log_slope, v, ends)


def _log_slope(xp: Any, v: Any, low: Any, high: Any) -> Any:
    both, above, below = _kinds(xp, low, high)
    width = xp.where(both, high - low, 1.0)
    log_sigmoid = log_expit if xp is np else jax.nn.log_sigmoid
    inside = xp.log(width) + log_sigmoid(v) + log_sigmoid(-v)
    return xp.where(both, inside, xp.where(above, v, xp.where(below, -v, 0.0)))


def _on_host_or_traced(function: Any, points: Any, ends: Ends) -> Float[Array, "... p"]:
    """With NumPy where there are numbers: nothing is compiled for them."""
    xp = numpy_for(points, ends)
    at = xp.asarray(points)
    low, high = (xp.asarray(end).reshape(*[1] * (at.ndim - 1), -1) for end in ends)
    with np.errstate(all="ignore"):
        return as_jax(function(xp, at, low, high))


def _kinds(xp: Any, low: Any, high: Any) -> tuple[Any, Any, Any]:
    """Where both ends are finite, only the lower, only the upper."""
    from_low, to_high = xp.isfinite(low), xp.isfinite(high)
    return from_low & to_high, from_low & ~to_high, to_high & ~from_low
