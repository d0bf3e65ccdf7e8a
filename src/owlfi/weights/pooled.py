"""Tuned weights where every theta has points of its own, under one kernel for all of them.

A few points say little of a kernel; together, the points of all thetas say it well.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from owlfi._tools.arrays import as_jax, take_rows
from owlfi._tools.bfgs import minimise
from owlfi._tools.checks import as_rows
from owlfi._tools.programs import compile_quickly
from owlfi.kernels import Kernel, as_kernel
from owlfi.measures import Measure, as_measure, as_points
from owlfi.weights.certificate import LARGEST_UNEXPLAINED, Certificate, Verdict
from owlfi.weights.coordinates import System, coordinate_systems
from owlfi.weights.data_grams import are_enough, data_gram
from owlfi.weights.kernel_fit import (
    FAMILIES,
    Criterion,
    KernelFit,
    assess,
    constant_errors,
    families_in,
    likelihood,
)
from owlfi.weights.optimal import optimal_weights
from owlfi.weights.quadrature import Quadrature, equal_shares, unweighted_because
from owlfi.weights.tuned import FEWEST

_LEAST_NUGGET = 1e-8  # smaller ones would trust rounding
_TOLERANCE = 1e-6
_TRIALS = 200


def pooled_weights(data_kernel: Any, measure: Any, points: Any, y: Any) -> Quadrature:
    """Weights for designs (t, m, s) on which y (t, m, d) was simulated, one theta each.

    data_kernel: k, between simulations and observations.
    measure: the distribution of u.

    One base kernel is fitted to all thetas together, otherwise as in `tuned_weights`, but for what
    lies beyond the coordinates that it looks along, which is noise to it. The
    certificate has an estimated error for each design. Weights are equal where the simulations
    vary with u in no way that can be seen.

    Raises ValueError for shapes that do not fit, fewer than 4 points, and values that are not
    finite.

    >>> import owlfi
    >>> u = jax.random.normal(jax.random.key(0), (60, 8, 1))
    >>> tuned = pooled_weights(owlfi.SquaredExponential(1.0), owlfi.Normal(), u, 3 + u)
    >>> tuned.weights.shape, tuned.certificate.lengthscale[0].round(2)
    ((60, 8), Array([1.], dtype=float64))
    """
    measure = as_measure(measure)
    u = as_points("points", points, measure, batched=True)
    return weigh_each(as_kernel(data_kernel), measure, u, as_rows("y", y, batched=True))


def weigh_each(
    k: Kernel, measure: Measure, u: Float[Array, "..."], y: Float[Array, "..."]
) -> Quadrature:
    """The same, where rows of y that failed are NaN (see `data_grams`).

    Thetas at which most did say nothing of the kernel; their errors are NaN.
    """
    if u.ndim != 3 or y.shape[:-1] != u.shape[:-1] or u.shape[1] < FEWEST:
        raise ValueError(
            "points must have shape (t, m, s) and y (t, m, d), a design of at least "
            f"{FEWEST} points for each theta, got {u.shape} and {y.shape}"
        )
    usable = np.flatnonzero(are_enough(y))
    noise = _LEAST_NUGGET * jnp.eye(u.shape[1])
    # The same noise in K as in C, or smooth simulations would look smoother than any kernel.
    grams = jax.lax.map(lambda sample: data_gram(k, sample) + noise, take_rows(y, usable))
    fits = _fit_all(measure, take_rows(u, usable), grams[:, None]) if len(usable) else []
    best = min(fits, key=lambda fit: fit.unexplained, default=None)
    if best is None or not best.unexplained <= LARGEST_UNEXPLAINED:
        return unweighted_because(u, Verdict.UNEXPLAINED)
    quadrature = _weigh(best, coordinate_systems(measure, u)[best.system].points)
    return replace(quadrature, points=u, certificate=_certify(best, quadrature, usable))


class _PooledFit(NamedTuple):
    """One kernel in one system of coordinates, assessed at each design."""

    system: int
    law: Measure
    grams: Float[Array, "t 1 m m"]
    found: KernelFit

    @property
    def unexplained(self) -> float:
        """On average over the designs."""
        return float(self.found.unexplained.mean())


def _fit_all(measure: Measure, u: Array, grams: Float[Array, "t 1 m m"]) -> list[_PooledFit]:
    """Every family in every system of coordinates."""

    def fit(number: int, system: System, family: int) -> _PooledFit:
        widths, ends = as_jax(system.widths), as_jax(system.outermost)
        found = _fit(jnp.array(family), system.points, widths, grams, ends)
        return _PooledFit(number, system.law, grams, found)

    return [
        fit(number, system, family)
        for number, system in enumerate(coordinate_systems(measure, u))
        for family in range(len(families_in(system.law.dim)))
    ]


@compile_quickly
def _fit(family: Array, points: Array, widths: Array, grams: Array, ends: Array) -> KernelFit:
    """The kernel that is most likely for all designs, and its errors at each."""

    def pooled_likelihood(x: Array) -> Array:
        def one(u: Array, gram: Array) -> Array:
            return likelihood(Criterion(u, widths, _LEAST_NUGGET).matrix()(family, x), gram)

        return jax.vmap(one)(points, grams).mean()

    starts = Criterion(points[0], widths).starts()
    x = minimise(pooled_likelihood, starts, trials=_TRIALS, tolerance=_TOLERANCE)

    def assess_design(u: Array, gram: Array, end: Array) -> KernelFit:
        criterion = Criterion(u, widths, _LEAST_NUGGET)
        parameters, matrix = criterion.parameters(x), criterion.matrix()(family, x)
        return assess(jnp.array(0), family, *parameters, matrix, gram, end, equal_shares(u))

    return jax.vmap(assess_design)(points, grams, ends)


def _weigh(fit: _PooledFit, points: Float[Array, "t m s"]) -> Quadrature:
    """By the fitted kernel, as weights come: all thetas speak for it."""
    found = fit.found
    base_kernel = FAMILIES[int(found.family[0])](found.lengthscale[0]) + found.constant[0]
    return optimal_weights(base_kernel, fit.law, points, nugget=float(found.nugget[0]))


def _certify(fit: _PooledFit, quadrature: Quadrature, usable: Int[np.ndarray, " g"]) -> Certificate:
    """usable: the thetas that the kernel was fitted to."""
    found, (t, m) = fit.found, quadrature.weights.shape

    def of_all(each: Float[Array, " g"]) -> Float[Array, " t"]:
        return jnp.full(t, jnp.nan).at[usable].set(each)

    noise = quadrature.nugget * (quadrature.weights**2).sum(-1)
    # Of one process: a variance for each theta would rest on its few points.
    excess = found.variance.mean() * (quadrature.squared_worst_case_error + noise)
    return Certificate(
        excess * jnp.maximum(found.tails.mean(), 1.0),
        of_all(constant_errors(fit.grams, jnp.full(m, 1 / m))[:, 0] / m),
        of_all(found.unexplained),
        of_all(found.tails),
        jnp.broadcast_to(found.lengthscale[:1], (t, found.lengthscale.shape[1])),
        jnp.broadcast_to(found.family[:1], (t,)),
        jnp.full(len(excess), int(Verdict.WEIGHTED)),
    )
