"""The base kernel c, fitted to simulations.

For f ~ GP(0, k), E (∫ f dP - Σ w_i f(y_i))² is the squared MMD itself. So the Gram matrix
K = k(y, y), which the MMD needs anyway, is exact training data for a kernel on the noise: it says
how smoothly, and along which coordinates, k(y(u), ·) varies with u.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from owlfi._tools.bfgs import minimise
from owlfi._tools.programs import compile_quickly
from owlfi.kernels import CoordinateKernel, Matern, Separable, SquaredExponential, squared_distances

_MOST_LENGTHSCALES = 20  # one each coordinate up to here, one for all beyond
_SMALL_DESIGN = 48
_LOG_NUGGET = (-32.0, 0.0)
_START_NUGGETS = -14.0, -3.0  # from the first alone, what is rough ends in lengthscales of nothing
_LOG_CONSTANT = 12.0  # either way
_LOG_LINEAR = (-16.0, 4.0)
_TINY = 1e-300
_ROUNDING = 1e-15  # of a factorisation, for each point
_LOG_LENGTHSCALE = 5.0  # either way, from the spread of the coordinate


def product_matern(nu: float, lengthscale: Array) -> CoordinateKernel:
    """The product over the coordinates of one-dimensional Matérn kernels."""
    return Separable(Matern(nu=nu, lengthscale=lengthscale))


FAMILIES = (SquaredExponential, partial(product_matern, 2.5), partial(product_matern, 1.5))


def base_gram(
    family: Array, lengthscale: Array, u: Float[Array, "m s"], families: int | None = None
) -> Float[Array, "m m"]:
    """c(u, u) of the family with this index, one of the first so many."""
    choices = families_in(u.shape[-1])[:families]
    branches = [lambda scale, make=make: make(scale).gram(u, u) for make in choices]
    return jax.lax.switch(family, branches, lengthscale)


def with_rest(
    gram: Float[Array, "m m"], linear: Array, rest: Float[Array, "m m"] | None
) -> Float[Array, "m m"]:
    """c(u, u) where y also changes with coordinates r that c does not see, linearly.

    That is c(v, v') (1 + linear ⟨r, r'⟩): the mean of r is 0, so that the embedding is that of c.
    """
    return gram if rest is None else gram * (1 + linear * rest)


def families_in(dim: int) -> tuple:
    """In many dimensions, no sample tells one smoothness from another."""
    return FAMILIES if dim <= _MOST_LENGTHSCALES else FAMILIES[:1]


class KernelFit(eqx.Module):
    """A kernel c + constant with nugget, in units of c; leading axes are separate designs."""

    coordinates: Int[Array, "..."]
    """Which of the coordinate systems offered."""
    family: Int[Array, "..."]
    lengthscale: Float[Array, "... q"]
    """Infinite where the coordinates chosen are fewer than those of other systems."""
    constant: Float[Array, "..."]
    nugget: Float[Array, "..."]
    linear: Float[Array, "..."]
    """What varies linearly with coordinates beyond those that c sees, in units of c."""
    variance: Float[Array, "..."]
    """σ² of c: mean of tr(P K) / m over the thetas."""
    unexplained: Float[Array, "..."]
    """Leave-one-out error over that of a constant; above 0.9 weights add nothing."""
    tails: Float[Array, "..."]
    """How many times larger than predicted the leave-one-out error is at the outermost points."""
    bias: Float[Array, "..."]
    """The same of the mean leave-one-out error, squared: far above 1, errors are of one sign."""


class Criterion(NamedTuple):
    """C + nugget·1 as a function of unbounded numbers."""

    points: Float[Array, "m s"]
    scales: Float[Array, " s"]
    least_nugget: float = 0.0
    families: int | None = None
    """How many there are, where not all are tried."""
    rest: Float[Array, "m m"] | None = None
    """Products of what lies beyond the coordinates."""

    def starts(self) -> Float[Array, "r n"]:
        """Smooth, and with noise."""
        low, high = _LOG_NUGGET
        nuggets = jnp.arctanh((2 * jnp.array(_START_NUGGETS) - low - high) / (high - low))
        lengthscales = 1 if self.shared else self.points.shape[1]
        others = self.rest is not None
        return jnp.zeros((len(nuggets), 2 + others + lengthscales)).at[:, 0].set(nuggets)

    @property
    def shared(self) -> bool:
        """Whether one number scales all lengthscales."""
        return self.points.shape[1] > _MOST_LENGTHSCALES

    def parameters(self, x: Array) -> tuple[Array, Array, Array, Array]:
        """nugget, constant, linear, lengthscales (s,)."""
        squashed = jnp.tanh(x)
        nugget = self.least_nugget + _between(*_LOG_NUGGET, squashed[0])
        constant = jnp.exp(_LOG_CONSTANT * squashed[1])
        scales, linear = squashed[2:], jnp.array(0.0)
        if self.rest is not None:
            some = jnp.trace(self.rest) > 0  # or none of it in this system
            scales, linear = squashed[3:], some * _between(*_LOG_LINEAR, squashed[2])
        return nugget, constant, linear, self.scales * jnp.exp(_LOG_LENGTHSCALE * scales)

    def matrix(self) -> Callable[[Array, Array], Array]:
        """A function of the family and x."""
        identity = jnp.eye(len(self.points))
        distances = squared_distances(self.points, self.points, self.scales) if self.shared else 0.0

        def evaluate(family: Array, x: Array) -> Array:
            nugget, constant, linear, lengthscale = self.parameters(x)
            if self.shared:  # then the distances are computed once
                gram = jnp.exp(-0.5 * distances * (self.scales[0] / lengthscale[0]) ** 2)
            else:
                gram = base_gram(family, lengthscale, self.points, self.families)
            return with_rest(gram, linear, self.rest) + constant + nugget * identity

        return evaluate


def _between(low: float, high: float, squashed: Array) -> Array:
    """From -1 ... 1, evenly in the logarithm."""
    return jnp.exp(0.5 * (low + high + (high - low) * squashed))


@jax.custom_vjp
def likelihood(matrix: Array, grams: Float[Array, "t m m"]) -> Array:
    """Mean over theta of m log tr(P K) + log|C̃|: a Gaussian likelihood, its scale profiled out."""
    return _likelihood_and_parts(matrix, grams)[0]


def _likelihood_and_parts(matrix: Array, grams: Array) -> tuple[Array, tuple[Array, Array]]:
    m = matrix.shape[0]
    factor = jnp.linalg.cholesky(matrix)
    inverse = invert(factor)
    traces = jnp.einsum("ij,tij->t", inverse, grams)
    value = m * jnp.log(traces).mean() + 2 * jnp.log(jnp.diagonal(factor)).sum()
    return value, (inverse, jnp.einsum("t,tij->ij", 1 / (traces * len(traces)), grams))


def invert(factor: Array) -> Array:
    """(L Lᵀ)⁻¹; small ones row by row, which many designs can do side by side."""
    m = factor.shape[0]
    if m > _SMALL_DESIGN:
        return jax.scipy.linalg.cho_solve((factor, True), jnp.eye(m))

    def solve_row(i: Array, found: Array) -> Array:
        return found.at[i].set((jnp.eye(m)[i] - factor[i] @ found) / factor[i, i])

    root = jax.lax.fori_loop(0, m, solve_row, jnp.zeros((m, m)))
    return root.T @ root


def _likelihood_slope(parts: tuple[Array, Array], slope: Array) -> tuple[Array, None]:
    inverse, gram = parts
    return slope * (inverse - len(gram) * (inverse @ gram @ inverse)), None


likelihood.defvjp(_likelihood_and_parts, _likelihood_slope)


@compile_quickly
def fit(
    points: Float[Array, "b g m q"],
    grams: Float[Array, "b t m m"],
    widths: Float[Array, "g q"],
    outermost: Float[Array, "b g m"],
    typical: Float[Array, " m"],
    families: int | None = None,
    rest: Float[Array, "b g m m"] | None = None,
) -> KernelFit:
    """The kernel of each design, pooled over its t thetas.

    points: in g systems of coordinates, of which the best is chosen.
    widths: the natural lengthscale of each coordinate.
    outermost: weights of the points that stand for the unseen tails, summing to one or zero.
    typical: weights of the points that stand for the measure, by which kernels are compared.
    families: how many of the families are tried; all where left out.
    rest: products of what lies beyond the coordinates of each system.
    """

    def fit_one(design: tuple[Array, Array, Array, Array | None]) -> KernelFit:
        return _fit_one(*design, widths, typical, families)

    # Side by side only while small: XLA's batched triangular solves are slow, LAPACK's are not.
    at_once = points.shape[0] if points.shape[2] <= _SMALL_DESIGN else None
    return jax.lax.map(fit_one, (points, grams, outermost, rest), batch_size=at_once)


def _fit_one(
    points: Array,
    grams: Array,
    outermost: Array,
    rest: Array | None,
    widths: Array,
    typical: Array,
    families: int | None,
) -> KernelFit:
    """The first family chooses the coordinates; the others start from where it ended."""
    systems = len(points)

    def criterion_in(coordinates: Array | int) -> Criterion:
        beyond = None if rest is None else rest[coordinates]
        return Criterion(points[coordinates], widths[coordinates], families=families, rest=beyond)

    starts = criterion_in(0).starts()

    def try_stage(
        best: tuple[KernelFit, Array], number: Array
    ) -> tuple[tuple[KernelFit, Array], None]:
        searching = number < systems
        coordinates = jnp.where(searching, number, best[0].coordinates)
        family = jnp.where(searching, 0, number - systems + 1)
        criterion = criterion_in(coordinates)
        first = jnp.where(searching, starts, best[1])
        matrix = partial(criterion.matrix(), family)
        x = minimise(lambda x: likelihood(matrix(x), grams), first)
        parameters = criterion.parameters(x)
        ends = outermost[coordinates]
        found = assess(coordinates, family, *parameters, matrix(x), grams, ends, typical)
        better = found.unexplained < best[0].unexplained  # NaN is not
        chosen = jax.tree.map(lambda new, old: jnp.where(better, new, old), (found, x), best)
        return chosen, None

    nothing = KernelFit(jnp.array(0), jnp.array(0), widths[0], *[jnp.array(jnp.inf)] * 7)
    stages = jnp.arange(systems + len(families_in(points.shape[-1])[:families]) - 1)
    return jax.lax.scan(try_stage, (nothing, starts[0]), stages)[0][0]


@compile_quickly
def choose_better(
    fitted: KernelFit,
    known: KernelFit,
    points: Float[Array, "b g m q"],
    grams: Float[Array, "b t m m"],
    outermost: Float[Array, "b g m"],
    typical: Float[Array, " m"],
    rest: Float[Array, "b g m m"] | None = None,
) -> KernelFit:
    """The kernels fitted to the designs, or those known from others where these fit better."""

    def compare(design: tuple[KernelFit, KernelFit, Array, Array, Array, Any]) -> KernelFit:
        fitted, known, systems, grams, outermost, rest = design
        gram = base_gram(known.family, known.lengthscale, systems[known.coordinates])
        beyond = None if rest is None else rest[known.coordinates]
        gram = with_rest(gram, known.linear, beyond)
        # More points need more of a nugget to be told apart.
        rounding = _ROUNDING * len(gram) * (1 + known.constant + known.linear)
        nugget = jnp.maximum(known.nugget, rounding)
        matrix = gram + known.constant + nugget * jnp.eye(len(gram))
        parameters = nugget, known.constant, known.linear, known.lengthscale
        ends = outermost[known.coordinates]
        found = assess(known.coordinates, known.family, *parameters, matrix, grams, ends, typical)
        better = (found.unexplained < fitted.unexplained) | jnp.isnan(fitted.unexplained)
        return jax.tree.map(lambda new, old: jnp.where(better, new, old), found, fitted)

    return jax.lax.map(compare, (fitted, known, points, grams, outermost, rest))


def assess(
    coordinates: Array,
    family: Array,
    nugget: Array,
    constant: Array,
    linear: Array,
    lengthscale: Array,
    matrix: Float[Array, "m m"],
    grams: Float[Array, "t m m"],
    outermost: Float[Array, " m"],
    typical: Float[Array, " m"],
) -> KernelFit:
    """How well a kernel fits one design."""
    m = len(matrix)
    inverse = invert(jnp.linalg.cholesky(matrix))
    # (P K P)_ii / P_ii²: the squared error at point i of the fit to the others, for each theta.
    precision = jnp.diagonal(inverse)
    left_out = jnp.einsum("ij,tjk,ki->ti", inverse, grams, inverse) / precision[None] ** 2
    variance = jnp.einsum("ij,tij->t", inverse, grams) / m
    standardised = left_out * precision[None] / variance[:, None]
    unexplained = (left_out @ typical) / jnp.maximum(constant_errors(grams, typical), _TINY)
    shares = typical / precision
    mean = inverse @ shares  # of the leave-one-out errors of f, whose square is meanᵀ K mean
    bias = jnp.einsum("i,tij,j->t", mean, grams, mean) / (variance * (shares @ mean))
    return KernelFit(
        coordinates,
        family,
        lengthscale,
        constant,
        nugget,
        linear,
        variance.mean(),
        unexplained.mean(),
        (standardised @ outermost).mean(),
        bias.mean(),
    )


def constant_errors(
    grams: Float[Array, "... m m"], typical: Float[Array, " m"]
) -> Float[Array, "..."]:
    """The leave-one-out error of a constant alone: mean_i (H K H)_ii / (1 - 1/m)²."""
    diagonal = jnp.diagonal(grams, axis1=-2, axis2=-1) @ typical
    centred = diagonal - (grams @ typical) @ typical
    return centred / (1 - typical @ typical) ** 2
