"""Where searches look: parameters between two ends as they are, others on the real line.

On the real line the ends of a prior are infinitely far, and a scatter of thetas that came near one
would hold a single theta: what is noise would pass for slopes.
"""

from typing import Any

from jaxtyping import Array, Float

from owlfi._tools.arrays import as_jax, numpy_for
from owlfi._tools.real_line import Ends, from_real, log_slope, to_real

_INSIDE = 1e-6  # of an interval, from its ends


def to_place(theta: Float[Array, "... p"], ends: Ends) -> Float[Array, "... p"]:
    """The place of parameters.

    >>> import jax.numpy as jnp
    >>> to_place(jnp.array([1.0, 1.0]), (jnp.zeros(2), jnp.array([4.0, jnp.inf])))
    Array([1., 0.], dtype=float64)
    """
    return to_real(theta, _free(ends))


def from_place(place: Float[Array, "... p"], ends: Ends) -> Float[Array, "... p"]:
    """The inverse of `to_place`."""
    return from_real(place, _free(ends))


def steepness(place: Float[Array, "... p"], ends: Ends) -> Float[Array, "... p"]:
    """The derivative of `from_place`.

    >>> import jax.numpy as jnp
    >>> steepness(jnp.array([1.0, 0.0]), (jnp.zeros(2), jnp.array([4.0, jnp.inf])))
    Array([1., 1.], dtype=float64)
    """
    return as_jax(numpy_for(place, ends).exp(log_slope(place, _free(ends))))


def keep_within(place: Float[Array, "... p"], ends: Ends) -> Float[Array, "... p"]:
    """The nearest place inside of the ends."""
    xp, low, high, both = _sort(ends)
    margin = _INSIDE * xp.where(both, high - low, 0.0)
    lowest = xp.where(both, low + margin, -xp.inf)
    kept = numpy_for(place, ends).clip(place, lowest, xp.where(both, high - margin, xp.inf))
    return as_jax(kept)


def place_to_real(place: Float[Array, " p"], ends: Ends) -> Float[Array, " p"]:
    """Its numbers on the real line: themselves, but for parameters between two ends."""
    xp, low, high, both = _sort(ends)
    inside = xp.where(both, xp.asarray(place), xp.where(both, (low + high) / 2, 0.0))
    half = xp.where(both, low, -xp.inf), xp.where(both, high, xp.inf)
    return as_jax(xp.where(both, to_real(inside, half), xp.asarray(place)))


def place_widths(
    widths: Float[Array, " p"], real: Float[Array, " p"], ends: Ends
) -> Float[Array, " p"]:
    """Of places, from those of the parameters and those on the real line."""
    xp, _, _, both = _sort(ends)
    return as_jax(xp.where(both, xp.asarray(widths), xp.asarray(real)))


def _free(ends: Ends) -> Ends:
    xp, low, high, both = _sort(ends)
    return as_jax(xp.where(both, -xp.inf, low)), as_jax(xp.where(both, xp.inf, high))


def _sort(ends: Ends) -> tuple[Any, Any, Any, Any]:
    """The ends, and which are both finite."""
    xp = numpy_for(ends)
    low, high = map(xp.asarray, ends)
    return xp, low, high, xp.isfinite(low) & xp.isfinite(high)
