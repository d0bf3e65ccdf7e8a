"""Tuned weights where every theta has points of its own, under one kernel for all of them.

A few points say little of a kernel; together, the points of all thetas say it well.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from owlfi._tools.arrays import as_jax
from owlfi._tools.bfgs import minimise
from owlfi._tools.checks import as_rows
from owlfi._tools.programs import compile_quickly
from owlfi.kernels import as_kernel
from owlfi.measures import Measure, as_measure, as_points
from owlfi.weights.certificate import LARGEST_UNEXPLAINED, Certificate, Verdict, without_estimate
from owlfi.weights.coordinates import System, coordinate_systems
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
from owlfi.weights.quadrature import Quadrature, equal_shares, unweighted, with_certificate
from owlfi.weights.tuned import FEWEST

_LEAST_NUGGET = 1e-8  # smaller ones would trust rounding
_TOLERANCE = 1e-6
_TRIALS = 200


def pooled_weights(data_kernel: Any, measure: Any, points: Any, y: Any) -> Quadrature:
    """Weights for designs (t, m, s) on which y (t, m, d) was simulated, one theta each.

    data_kernel: k, between simulations and observations.
    measure: the distribution of u.

    One base kernel is fitted to all thetas together, otherwise as in `tuned_weights`. The
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
    rows = as_rows("y", y, batched=True)
    if u.ndim != 3 or rows.shape[:-1] != u.shape[:-1] or u.shape[1] < FEWEST:
        raise ValueError(
            "points must have shape (t, m, s) and y (t, m, d), a design of at least "
            f"{FEWEST} points for each theta, got {u.shape} and {rows.shape}"
        )
    k, noise = as_kernel(data_kernel), _LEAST_NUGGET * jnp.eye(u.shape[1])
    # The same noise in K as in C, or smooth simulations would look smoother than any kernel.
    grams = jax.lax.map(lambda sample: k.gram(sample, sample) + noise, rows)
    best = min(_fit_all(measure, u, grams[:, None]), key=lambda fit: fit.unexplained)
    if not best.unexplained <= LARGEST_UNEXPLAINED:
        return with_certificate(unweighted(u), without_estimate(u, Verdict.UNEXPLAINED))
    quadrature = _weigh(best)
    certificate = _certify(best, quadrature)
    return with_certificate(eqx.tree_at(lambda q: q.points, quadrature, u), certificate)


class _PooledFit(NamedTuple):
    """One kernel in one system of coordinates, assessed at each design."""

    law: Measure
    points: Float[Array, "t m s"]
    grams: Float[Array, "t 1 m m"]
    found: KernelFit

    @property
    def unexplained(self) -> float:
        """On average over the designs."""
        return float(self.found.unexplained.mean())


def _fit_all(measure: Measure, u: Array, grams: Float[Array, "t 1 m m"]) -> list[_PooledFit]:
    """Every family in every system of coordinates."""

    def fit(system: System, family: int) -> _PooledFit:
        widths, ends = as_jax(system.widths), as_jax(system.outermost)
        found = _fit(jnp.array(family), system.points, widths, grams, ends)
        return _PooledFit(system.law, system.points, grams, found)

    return [
        fit(system, family)
        for system in coordinate_systems(measure, u)
        for family in range(len(families_in(system.law.dim)))
    ]


@compile_quickly
def _fit(family: Array, points: Array, widths: Array, grams: Array, ends: Array) -> KernelFit:
    """The kernel that is most likely for all designs, and its errors at each."""

    def pooled_likelihood(x: Array) -> Array:
        def one(u: Array, gram: Array) -> Array:
            return likelihood(Criterion(u, widths, _LEAST_NUGGET).matrix()(family, x), gram)

        return jax.vmap(one)(points, grams).mean()

    start = Criterion(points[0], widths).start()
    x = minimise(pooled_likelihood, start, trials=_TRIALS, tolerance=_TOLERANCE)

    def assess_design(u: Array, gram: Array, end: Array) -> KernelFit:
        criterion = Criterion(u, widths, _LEAST_NUGGET)
        parameters, matrix = criterion.parameters(x), criterion.matrix()(family, x)
        return assess(jnp.array(0), family, *parameters, matrix, gram, end, equal_shares(u))

    return jax.vmap(assess_design)(points, grams, ends)


def _weigh(fit: _PooledFit) -> Quadrature:
    """By the fitted kernel, as weights come: all thetas speak for it."""
    found = fit.found
    base_kernel = FAMILIES[int(found.family[0])](found.lengthscale[0]) + found.constant[0]
    return optimal_weights(base_kernel, fit.law, fit.points, nugget=float(found.nugget[0]))


def _certify(fit: _PooledFit, quadrature: Quadrature) -> Certificate:
    found = fit.found
    noise = quadrature.nugget * (quadrature.weights**2).sum(-1)
    # Of one process: a variance for each theta would rest on its few points.
    excess = found.variance.mean() * (quadrature.squared_worst_case_error + noise)
    return Certificate(
        excess * jnp.maximum(found.tails.mean(), 1.0),
        constant_errors(fit.grams, equal_shares(fit.points[0]))[:, 0] / fit.points.shape[1],
        found.unexplained,
        found.tails,
        found.lengthscale,
        found.family,
        jnp.full(len(excess), int(Verdict.WEIGHTED)),
    )
