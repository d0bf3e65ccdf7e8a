"""Kernel mean embeddings in closed form, coordinate by coordinate.

`@closed_form(SomeKernel, SomeMeasure)` registers a function of both that returns the mean
z(u) = ∫ c(u, v) U(dv) as a function of one point and the norm I = ∬ c dU dU, each for all
coordinates at once; None for the norm has it integrated numerically, None for both says "not for
these parameters".
"""

from collections.abc import Callable, Iterable
from functools import reduce
from math import comb, factorial, pi, sqrt
from operator import add
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import erf, erfc
from jaxtyping import Array, Float

from owlfi._tools.special import (
    bernoulli_polynomial,
    erfcx,
    exponential_moment,
    gaussian_moments,
    log_ndtr_difference,
    lower_gamma,
)
from owlfi.kernels import (
    CoordinateKernel,
    InverseMultiquadric,
    Korobov,
    Matern,
    RationalQuadratic,
    SquaredExponential,
)
from owlfi.measures import (
    Exponential,
    Family,
    HalfNormal,
    Laplace,
    Normal,
    TruncatedNormal,
    Uniform,
)


class ClosedForm(NamedTuple):
    """Both halves of an embedding along each coordinate, the mean at a point or at many."""

    mean: Callable[[Float[Array, "*m s"]], Float[Array, "*m s"]]
    norm2: Float[Array, " s"] | None


Formula = Callable[..., ClosedForm | None]
_FORMULAS: dict[tuple[type, type], Formula] = {}


def closed_form(kernel: type, measure: type) -> Callable[[Formula], Formula]:
    """Register the formula for a kind of kernel and a kind of measure."""

    def register(formula: Formula) -> Formula:
        _FORMULAS[kernel, measure] = formula
        return formula

    return register


def find_closed_form(kernel: CoordinateKernel, measure: Family) -> ClosedForm | None:
    """The closed form of a pair, compiled, at many points (m, s); None where there is none."""
    formula = _FORMULAS.get((type(kernel), type(measure)))
    form = formula(kernel, measure) if formula else None
    if formula is None or form is None:
        return None
    norm2 = None if form.norm2 is None else jnp.broadcast_to(form.norm2, (measure.dim,))
    return ClosedForm(lambda u: _compiled_mean(formula, kernel, measure, u), norm2)


@eqx.filter_jit
def _compiled_mean(
    formula: Formula, kernel: CoordinateKernel, measure: Family, u: Float[Array, "m s"]
) -> Float[Array, "m s"]:
    form = formula(kernel, measure)
    assert form is not None
    return jax.vmap(form.mean)(u)


def _total(terms: Iterable[Array]) -> Array:
    return reduce(add, terms)


def _distances_from_ends(measure: Uniform, u: Array) -> tuple[Array, Array]:
    """Of u from the far and from the near end; the latter is negative inside the support.

    Points of a mixture may lie outside the support of its components.
    """
    left, right = u - measure.low, measure.high - u
    return jnp.where(left > right, left, right), -jnp.where(left > right, right, left)


@closed_form(SquaredExponential, Uniform)
def _(kernel: SquaredExponential, measure: Uniform) -> ClosedForm:
    width = measure.high - measure.low
    scale = sqrt(2) * kernel.lengthscale
    t = width / scale

    def mean(u: Array) -> Array:
        far, near = _distances_from_ends(measure, u)
        both = jnp.where(
            near > 0, erfc(near / scale) - erfc(far / scale), erf(far / scale) - erf(near / scale)
        )
        return kernel.lengthscale * sqrt(pi / 2) / width * both

    return ClosedForm(mean, (sqrt(pi) * t * erf(t) + jnp.expm1(-(t**2))) / t**2)


@closed_form(SquaredExponential, Normal)
def _(kernel: SquaredExponential, measure: Normal) -> ClosedForm:
    l2, v = kernel.lengthscale**2, measure.sd**2

    def mean(u: Array) -> Array:
        return jnp.sqrt(l2 / (l2 + v)) * jnp.exp(-0.5 * (u - measure.mean) ** 2 / (l2 + v))

    return ClosedForm(mean, jnp.sqrt(l2 / (l2 + 2 * v)))


@closed_form(SquaredExponential, Exponential)
def _(kernel: SquaredExponential, measure: Exponential) -> ClosedForm:
    tilt = measure.rate * kernel.lengthscale

    def mean(u: Array) -> Array:
        return sqrt(2 * pi) * tilt * gaussian_moments(0, tilt, -u / kernel.lengthscale)[0]

    return ClosedForm(mean, sqrt(pi / 2) * tilt * erfcx(tilt / sqrt(2)))


@closed_form(SquaredExponential, Laplace)
def _(kernel: SquaredExponential, measure: Laplace) -> ClosedForm:
    tilt = kernel.lengthscale / measure.scale

    def mean(u: Array) -> Array:
        d = (u - measure.loc) / kernel.lengthscale
        sides = gaussian_moments(0, tilt, d)[0] + gaussian_moments(0, tilt, -d)[0]
        return sqrt(pi / 2) * tilt * sides

    zeroth, first = gaussian_moments(1, tilt, jnp.zeros_like(tilt))
    return ClosedForm(mean, sqrt(pi / 2) * tilt * (zeroth + tilt * first))


@closed_form(SquaredExponential, TruncatedNormal)
def _truncated_normal(kernel: SquaredExponential, measure: TruncatedNormal) -> ClosedForm:
    l2, v = kernel.lengthscale**2, measure.sd**2
    sd = kernel.lengthscale * measure.sd / jnp.sqrt(l2 + v)
    log_mass = log_ndtr_difference(*measure.standard_ends(measure.mean, measure.sd))

    def mean(u: Array) -> Array:
        center = (u * v + measure.mean * l2) / (l2 + v)  # of the product of both Gaussians
        log_inside = log_ndtr_difference(*measure.standard_ends(center, sd))
        exponent = -0.5 * (u - measure.mean) ** 2 / (l2 + v) + log_inside - log_mass
        return jnp.sqrt(l2 / (l2 + v)) * jnp.exp(exponent)

    return ClosedForm(mean, None)


@closed_form(SquaredExponential, HalfNormal)
def _(kernel: SquaredExponential, measure: HalfNormal) -> ClosedForm | None:
    truncated = TruncatedNormal(jnp.zeros_like(measure.sd), measure.sd, low=0.0)
    return _truncated_normal(kernel, truncated)


def _matern_polynomial(kernel: Matern) -> tuple[list[float], Array] | None:
    """c_0 … c_p and a with c(r) = e^{-a r} Σ_j c_j (a r)^j, for nu = p + 1/2 up to 7/2."""
    p = kernel.nu - 0.5
    if p not in (0, 1, 2, 3):
        return None
    p = int(p)
    coefficients = [
        factorial(p) * factorial(2 * p - j) * 2**j
        / (factorial(2 * p) * factorial(j) * factorial(p - j))
        for j in range(p + 1)
    ]  # fmt: skip
    return coefficients, sqrt(2 * kernel.nu) / kernel.lengthscale


@closed_form(Matern, Uniform)
def _(kernel: Matern, measure: Uniform) -> ClosedForm | None:
    if (polynomial := _matern_polynomial(kernel)) is None:
        return None
    coefficients, a = polynomial
    t = a * (measure.high - measure.low)

    def inside(j: int, far: Array, near: Array) -> Array:
        return lower_gamma(j + 1, far) + lower_gamma(j + 1, -near)

    def outside(j: int, near: Array) -> Array:
        """∫_0^t (near + r)^j e^{-near - r} dr."""
        powers = (comb(j, i) * near ** (j - i) * lower_gamma(i + 1, t) for i in range(j + 1))
        return jnp.exp(-near) * _total(powers)

    def mean(u: Array) -> Array:
        far, near = (a * distance for distance in _distances_from_ends(measure, u))
        within, beyond = jnp.where(near > 0, 0.0, near), jnp.where(near > 0, near, 0.0)
        terms = [(c / t, j) for j, c in enumerate(coefficients)]
        return jnp.where(
            near > 0,
            _total(c * outside(j, beyond) for c, j in terms),
            _total(c * inside(j, far, within) for c, j in terms),
        )

    norm2 = _total(
        2 * c / t**2 * (t * lower_gamma(j + 1, t) - lower_gamma(j + 2, t))
        for j, c in enumerate(coefficients)
    )
    return ClosedForm(mean, norm2)


@closed_form(Matern, Normal)
def _(kernel: Matern, measure: Normal) -> ClosedForm | None:
    if (polynomial := _matern_polynomial(kernel)) is None:
        return None
    coefficients, a = polynomial

    def mean_at(d: Array, tilt: Array) -> Array:
        left, right = (gaussian_moments(len(coefficients), tilt, side) for side in (d, -d))
        return _total(c * tilt**j * (left[j] + right[j]) for j, c in enumerate(coefficients))

    def mean(u: Array) -> Array:
        return mean_at((u - measure.mean) / measure.sd, a * measure.sd)

    # The difference of two draws is normal, too, with sd sqrt(2) times as large.
    return ClosedForm(mean, mean_at(jnp.zeros_like(measure.sd), sqrt(2) * a * measure.sd))


@closed_form(Matern, Exponential)
def _(kernel: Matern, measure: Exponential) -> ClosedForm | None:
    if (polynomial := _matern_polynomial(kernel)) is None:
        return None
    coefficients, a = polynomial
    rate = measure.rate

    def mean(u: Array) -> Array:
        within, beyond = jnp.where(u < 0, 0.0, u), jnp.where(u < 0, -u, 0.0)
        terms = [(c * rate * a**j, j) for j, c in enumerate(coefficients)]
        return jnp.where(
            u < 0,
            _total(c * _other_side(j, a, rate, beyond) for c, j in terms),
            _total(c * _exponential_term(j, a, rate, within) for c, j in terms),
        )

    norm2 = _total(
        c * rate * a**j * factorial(j) / (a + rate) ** (j + 1) for j, c in enumerate(coefficients)
    )
    return ClosedForm(mean, norm2)


def _exponential_term(j: int, a: Array, rate: Array, u: Array) -> Array:
    """∫_0^∞ |u-v|^j e^{-a|u-v|} e^{-rate v} dv for u ≥ 0."""
    slower = jnp.where(a >= rate, rate, a)  # min would halve the derivative where they are equal
    below = u ** (j + 1) * exponential_moment(j, (a - rate) * u) * jnp.exp(-slower * u)
    return below + jnp.exp(-rate * u) * factorial(j) / (a + rate) ** (j + 1)


def _other_side(j: int, a: Array, rate: Array, d: Array) -> Array:
    """∫_0^∞ (d+t)^j e^{-a(d+t)} e^{-rate t} dt for d ≥ 0."""
    both = a + rate
    terms = sum((both * d) ** i / factorial(i) for i in range(j + 1))
    return jnp.exp(-a * d) * factorial(j) / both ** (j + 1) * terms


@closed_form(Matern, Laplace)
def _(kernel: Matern, measure: Laplace) -> ClosedForm | None:
    if (polynomial := _matern_polynomial(kernel)) is None:
        return None
    coefficients, a = polynomial
    rate = 1 / measure.scale
    both = a + rate

    def mean(u: Array) -> Array:
        d = jnp.abs(u - measure.loc)
        return _total(
            0.5 * c * rate * a**j * (_exponential_term(j, a, rate, d) + _other_side(j, a, rate, d))
            for j, c in enumerate(coefficients)
        )

    norm2 = _total(
        0.5 * c * rate * a**j
        * (factorial(j) / both ** (j + 1) + factorial(j + 1) * rate / both ** (j + 2))
        for j, c in enumerate(coefficients)
    )  # fmt: skip
    return ClosedForm(mean, norm2)


@closed_form(InverseMultiquadric, Uniform)
def _(kernel: InverseMultiquadric, measure: Uniform) -> ClosedForm:
    t = (measure.high - measure.low) / kernel.lengthscale

    def mean(u: Array) -> Array:
        far, near = (d / kernel.lengthscale for d in _distances_from_ends(measure, u))
        inside = jnp.arcsinh(far) - jnp.arcsinh(near)
        spread = far * jnp.sqrt(1 + near**2) + near * jnp.sqrt(1 + far**2)
        outside = jnp.arcsinh(t * (far + near) / jnp.where(near > 0, spread, 1.0))
        return jnp.where(near > 0, outside, inside) / t

    return ClosedForm(mean, 2 * (jnp.arcsinh(t) / t - 1 / (1 + jnp.sqrt(1 + t**2))))


@closed_form(RationalQuadratic, Uniform)
def _(kernel: RationalQuadratic, measure: Uniform) -> ClosedForm | None:
    if kernel.alpha != 1:
        return None
    scale = sqrt(2) * kernel.lengthscale
    t = (measure.high - measure.low) / scale

    def mean(u: Array) -> Array:
        far, near = (d / scale for d in _distances_from_ends(measure, u))
        return jnp.arctan2(t, 1 + far * near) / t  # arctan(far) - arctan(near), also where close

    return ClosedForm(mean, (2 * t * jnp.arctan(t) - jnp.log1p(t**2)) / t**2)


@closed_form(Korobov, Uniform)
def _(kernel: Korobov, measure: Uniform) -> ClosedForm:
    degree = 2 * kernel.alpha

    def periodic(order: int, x: Array) -> Array:
        """The order-th iterated integral of B_degree, which is periodic, too."""
        rising = factorial(degree + order) / factorial(degree)
        return bernoulli_polynomial(degree + order, x - jnp.floor(x)) / rising

    t = (measure.high - measure.low) / kernel.period

    def mean(u: Array) -> Array:
        ends = ((end - u) / kernel.period for end in (measure.high, measure.low))
        upper, lower = (periodic(1, end) for end in ends)
        return 1 + kernel.amplitude / t * (upper - lower)

    difference = periodic(2, t) - periodic(2, jnp.zeros_like(t))
    return ClosedForm(mean, 1 + kernel.amplitude * 2 / t**2 * difference)
