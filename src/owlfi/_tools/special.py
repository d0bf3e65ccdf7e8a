"""Special functions JAX lacks, in stable double precision and with exact derivatives."""

from fractions import Fraction
from functools import lru_cache, partial
from math import comb, factorial, gamma, log, pi, sqrt

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erfc
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from owlfi._tools.ranks import lift

_SERIES_TERMS = 60
_STEEP_EDGES = np.append(np.arange(7) / 6, np.ones(6))  # then, of what is left, six that grow
_PLATEAU_EDGES = np.append(np.zeros(7), (2.5 ** np.arange(1, 7) - 1) / (2.5**6 - 1))
_UNIT_NODES, _UNIT_WEIGHTS = (part / 2 for part in np.polynomial.legendre.leggauss(16))
_UNIT_NODES = _UNIT_NODES + 0.5  # on (0, 1)


def safe_sqrt(x: Array) -> Array:
    """sqrt with derivative 0 (not infinity) at 0."""
    positive = x > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, x, 1.0)), 0.0)


def _split(x: Array, switch: float) -> tuple[Array, Array]:
    """x below the switch and x above it, each held at the switch on the other side.

    min and max would halve the derivative at the switch itself.
    """
    below = x < switch
    return jnp.where(below, x, switch), jnp.where(below, switch, x)


@jax.jit
def erfcx(x: Array) -> Array:
    """exp(x²) erfc(x) for x ≥ 0, without overflow."""
    near, far = _split(x, 6.0)
    fraction = far  # continued fraction x + (1/2)/(x + 1/(x + (3/2)/(x + …)))
    for i in range(24, 0, -1):
        fraction = far + (i / 2) / fraction
    return jnp.where(x < 6.0, jnp.exp(near**2) * erfc(near), 1 / (sqrt(pi) * fraction))


def lower_gamma(order: int, t: Array) -> Array:
    """∫_0^t s^(order-1) e^{-s} ds for an integer order ≥ 1 and t ≥ 0, exact in relative terms."""
    switch = order + 4.0
    small, large = _split(t, switch)
    series = small**order * jnp.exp(-small) * _rising_series(order, small)
    partial_sum = sum(large**i / factorial(i) for i in range(order))
    complement = factorial(order - 1) * (1 - jnp.exp(-large) * partial_sum)
    return jnp.where(t < switch, series, complement)


@partial(jax.jit, static_argnums=0)
def _rising_series(order: int, t: Array) -> Array:
    """Σ_k t^k / (order (order+1) … (order+k)), all terms positive."""
    total = jnp.zeros_like(t)
    for k in range(_SERIES_TERMS, -1, -1):
        total = (1 + t * total) / (order + k)
    return total


def exponential_moment(order: int, x: Array) -> Array:
    """e^{-max(0, -x)} ∫_0^1 t^order e^{-x t} dt for any real x, exact in relative terms."""
    negative, plus = _split(x, 0.0)
    near_zero = plus < 1.0
    safe = jnp.where(near_zero, 1.0, plus)
    falling = jnp.where(
        near_zero,
        jnp.exp(-plus) * _rising_series(order + 1, plus),
        lower_gamma(order + 1, safe) / safe ** (order + 1),
    )
    return jnp.where(x >= 0, falling, _growing_moment(order, -negative))


@partial(jax.jit, static_argnums=0)
def _growing_moment(order: int, x: Array) -> Array:
    """e^{-x} ∫_0^1 t^order e^{x t} dt for x ≥ 0."""
    switch = 12.0
    small, large = _split(x, switch)
    total = jnp.zeros_like(x)
    for k in range(_SERIES_TERMS, -1, -1):  # Σ x^k / (k! (k + order + 1))
        total = 1 / (k + order + 1) + small / (k + 1) * total
    by_parts = (1 - jnp.exp(-large)) / large
    for j in range(1, order + 1):
        by_parts = (1 - j * by_parts) / large
    return jnp.where(x < switch, jnp.exp(-small) * total, by_parts)


@jax.jit
def log_ndtr(x: Array) -> Array:
    """log Φ(x); JAX's own loses digits in the lower tail."""
    finite = jnp.where(jnp.isinf(x), 0.0, x)
    below, above = _split(finite, 0.0)
    tail = jnp.log(0.5 * erfcx(-below / sqrt(2))) - 0.5 * below**2
    value = jnp.where(finite < 0, tail, jnp.log1p(-0.5 * erfc(above / sqrt(2))))
    return jnp.where(jnp.isinf(x), jnp.minimum(x, 0.0), value)


def log_ndtr_difference(low: Array, high: Array) -> Array:
    """log(Φ(high) - Φ(low)) for low < high, in either tail and for narrow intervals."""
    narrow = (high - low) * (1 + jnp.minimum(jnp.abs(low), jnp.abs(high))) < 1
    start, width = jnp.where(narrow, low, 0.0), jnp.where(narrow, high - low, 0.5)
    nodes, weights = (lift(part, width.ndim + 1) for part in (_UNIT_NODES, _UNIT_WEIGHTS))
    t = start[..., None] + width[..., None] * nodes  # Gauss-Legendre: a difference cancels
    mean = jax.scipy.special.logsumexp(-0.5 * t**2, axis=-1, b=weights)
    flip = low > 0  # both in the upper tail: mirror, so that nothing rounds to 1 - 1
    near, far = jnp.where(flip, -low, high), jnp.where(flip, -high, low)
    log_near, log_far = log_ndtr(near), log_ndtr(far)
    wide = log_near + jnp.log1p(-jnp.exp(jnp.where(narrow, -1.0, log_far - log_near)))
    return jnp.where(narrow, jnp.log(width) + mean - 0.5 * log(2 * pi), wide)


@partial(jax.jit, static_argnums=0)
def gaussian_moments(order: int, tilt: Array, d: Array) -> list[Array]:
    """φ(d) G_j(tilt + d) for j = 0 … order, with G_j(x) = ∫_0^∞ s^j e^{-xs - s²/2} ds, tilt ≥ 0."""
    x = tilt + d
    density = jnp.exp(-0.5 * d**2) / sqrt(2 * pi)
    negative, positive = _split(x, 0.0)
    above = density * sqrt(pi / 2) * erfcx(positive / sqrt(2))
    below = jnp.exp(jnp.where(x < 0, tilt * d + 0.5 * tilt**2, 0.0) + log_ndtr(-negative))
    first = jnp.where(x < 0, below, above)
    forward = [first, density - x * first]
    for j in range(1, order):
        forward.append(j * forward[j - 1] - x * forward[j])
    ratios = _moment_ratios(order, _split(x, 3.0)[1])
    backward = [first]
    for j in range(1, order + 1):
        backward.append(ratios[j] * backward[-1])
    return [jnp.where(x < 3.0, f, b) for b, f in zip(backward, forward, strict=False)]


def _moment_ratios(order: int, x: Array) -> dict[int, Array]:
    """r_j = G_j / G_{j-1} = j / (x + r_{j+1}), run backwards: forwards it cancels for x > 3."""
    ratio, kept = jnp.zeros_like(x), {}
    for j in range(60, 0, -1):
        ratio = j / (x + ratio)
        kept[j] = ratio
    return {j: kept[j] for j in range(1, order + 1)}


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def scaled_bessel_k(order: float, t2: Array) -> Array:
    """t^order K_order(t) as a function of t², the shape of every Matérn kernel.

    Its derivative in t² is -1/2 t^(order-1) K_(order-1)(t), the same function one order lower, so
    derivatives are exact at 0 as long as they exist; where they do not (order ≤ 0) the value at 0
    is set to 0. So is any value so far out that the Matérn kernel is no double above 0.
    """
    positive, near = t2 > 0, t2 < (750 + 4 * abs(order)) ** 2
    t = jnp.sqrt(jnp.where(positive & near, t2, 1.0))
    half = abs(order) - 0.5
    curve = _half_integer_bessel(int(half), t) if half == int(half) else _bessel_integral(order, t)
    if order < 0 and half == int(half):
        curve = curve * t ** (2 * order)  # K_{-ν} = K_ν
    at_zero = gamma(order) * 2 ** (order - 1) if order > 0 else 0.0
    most = at_zero if order > 0 else 1e300  # it falls; and slopes stay finite next to a kink
    return jnp.where(positive, jnp.where(near, jnp.minimum(curve, most), 0.0), at_zero)


@scaled_bessel_k.defjvp
def _(order, primals, tangents):  # type: ignore[no-untyped-def]
    (t2,), (dt2,) = primals, tangents
    return scaled_bessel_k(order, t2), -0.5 * scaled_bessel_k(order - 1.0, t2) * dt2


def _half_integer_bessel(p: int, t: Array) -> Array:
    """t^ν K_ν(t) for ν = p + 1/2: sqrt(π/2) e^{-t} times a polynomial of degree p."""
    polynomial = jnp.zeros_like(t)
    for i in range(p, -1, -1):
        coefficient = factorial(2 * p - i) / (factorial(i) * factorial(p - i) * 2 ** (p - i))
        polynomial = polynomial * t + coefficient
    root = jnp.exp(-0.5 * t)  # by halves: the factors reach farther than their product
    return sqrt(pi / 2) * root * polynomial * root


def _bessel_integral(order: float, t: Array) -> Array:
    """t^ν K_ν(t) = t^ν ∫_0^∞ exp(-t cosh v) cosh(νv) dv by composite Gauss-Legendre.

    Around the peak of exp(ν v - t cosh v), and as far to the left as that or e^(-ν v) counts: for
    small t a plateau, so panels grow away from the steep right end.
    """
    size, depth = abs(order), 42.0  # e^-42 of the peak is nothing
    radius = jnp.hypot(t, size)  # t cosh of the peak, where t sinh is ν
    peak = jnp.arcsinh(size / t)
    excess = t * (t / (radius + size))  # radius - ν
    right = jnp.arccosh(1 + depth / radius)
    fall = depth / size + sqrt(2 * depth / size) if size else np.inf
    left = jnp.minimum(jnp.minimum(jnp.arccosh(1 + depth / excess), fall), peak)
    steep = jnp.minimum(right + left, 6.0)
    edges = steep[..., None] * lift(_STEEP_EDGES, t.ndim + 1)
    edges += (right + left - steep)[..., None] * lift(_PLATEAU_EDGES, t.ndim + 1)
    width = jnp.diff(edges)[..., None]
    nodes, weights = (lift(part, t.ndim + 2) for part in (_UNIT_NODES, _UNIT_WEIGHTS))
    x = right[..., None, None] - edges[..., :-1, None] - width * nodes
    drop = excess[..., None, None] * 2 * jnp.sinh(0.5 * x) ** 2 + size * (jnp.expm1(x) - x)
    mirrored = jnp.exp(-2 * size * jnp.maximum(peak[..., None, None] + x, 0.0))
    total = (width * weights * 0.5 * jnp.exp(-drop) * (1 + mirrored)).sum((-2, -1))
    return total * jnp.exp(size * jnp.log(size + radius) - radius + (order - size) * jnp.log(t))


def bernoulli_polynomial(degree: int, x: ArrayLike) -> Float[Array, "..."]:
    """The Bernoulli polynomial B_degree(x), expanded at 1/2, where it has half as many terms."""
    return jnp.polyval(jnp.array(_bernoulli_coefficients(degree)), jnp.asarray(x) - 0.5)


@lru_cache
def _bernoulli_coefficients(degree: int) -> list[float]:
    numbers = [Fraction(1)]
    for n in range(1, degree + 1):
        total = sum((comb(n + 1, k) * numbers[k] for k in range(n)), Fraction(0))
        numbers.append(-total / (n + 1))
    at_half = [(Fraction(2, 2**k) - 1) * number for k, number in enumerate(numbers)]
    return [float(comb(degree, k) * at_half[k]) for k in range(degree + 1)]
