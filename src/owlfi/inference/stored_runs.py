"""Runs made elsewhere, as arrays."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from owlfi._tools.arrays import take_rows
from owlfi._tools.checks import brief
from owlfi.kernels import Kernel
from owlfi.measures import as_points
from owlfi.problem.problem import Problem, as_problem
from owlfi.problem.simulations import Simulations
from owlfi.problem.tuned_design import usable_thetas
from owlfi.weights.optimal import optimal_weights
from owlfi.weights.pooled import weigh_each
from owlfi.weights.quadrature import Quadrature, unweighted
from owlfi.weights.tuned import weigh_runs


def stored_simulations(
    problem: Problem, thetas: Any, u: Any, y: Any, *, base_kernel: Kernel | str | None = None
) -> Simulations:
    """Runs made elsewhere: at each theta (t, p), the noise u (t, m, s) and what came out (t, m, d).

    y: rows of the simulator itself; where the problem has summaries, they are taken here.
    base_kernel: c, of the weights. "tuned" fits one to the runs (see `pooled_weights`); any other
        gives its optimal weights at the points of each theta; equal weights where left out. u may
        also be one design (m, s) for all thetas.

    Raises ValueError for arrays that do not fit each other or the problem, thetas outside the
    prior, and another word.

    >>> import owlfi
    >>> from owlfi.models.wind_farm import stored_runs
    >>> runs = stored_runs()
    >>> problem = owlfi.Problem(owlfi.models.wind_farm(), runs.x)
    >>> stored_simulations(problem, runs.theta, runs.u, runs.y).y.shape
    (1000, 10, 1)
    """
    problem = as_problem(problem)
    thetas = as_points("thetas", thetas, problem.prior.measure)
    measure = problem.simulator.measure
    u = as_points("u", u, measure, batched=True)
    y = _as_numbers(y)  # NaN marks runs that failed
    y = problem.summarise_rows(y[..., None] if y.ndim == 2 else y)
    expected = (len(thetas), u.shape[-2], problem.observed.shape[1])
    if y.shape != expected or u.shape[:-2] not in ((), (len(thetas),)):
        raise ValueError(
            f"y must have shape {expected} (thetas, points, columns of the observations) and u one "
            f"design or one a theta, got y {y.shape} and u {u.shape}"
        )
    quadrature = _weigh(problem, thetas, u, y, base_kernel)
    return Simulations(thetas, quadrature, y, y.shape[0] * y.shape[1])


def _as_numbers(y: Any) -> Array:
    try:
        return jnp.asarray(np.asarray(y, float))
    except Exception as error:  # of its own __array__, too
        raise ValueError(f"y must be an array of numbers, got {brief(y)}") from error


def _weigh(
    problem: Problem, thetas: Array, u: Array, y: Array, base_kernel: Kernel | str | None
) -> Quadrature:
    if base_kernel is None:
        return unweighted(u)
    measure = problem.simulator.measure
    if isinstance(base_kernel, Kernel):
        return optimal_weights(base_kernel, measure, u)
    if not (isinstance(base_kernel, str) and base_kernel == "tuned"):
        raise ValueError(
            f"base_kernel must be 'tuned', a kernel on u, or left out, got {brief(base_kernel)}"
        )
    if u.ndim == 3:
        return weigh_each(problem.data_kernel, measure, u, y)
    return weigh_runs(problem.data_kernel, measure, u, take_rows(y, usable_thetas(y, thetas)))
