"""One kernel tuned to the points of all thetas: it is found, its error is known, it can say no."""

from functools import cache

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

import owlfi
from gaussian import LENGTHSCALE, exact_squared_mmd, gaussian_problem
from owlfi import Normal, SquaredExponential, pooled_weights
from owlfi.inference.prior_runs import measure_distances
from owlfi.inference.stored_runs import stored_simulations

KEY = jax.random.key(0)


def designs(t=60, m=8):
    return jax.random.normal(KEY, (t, m, 1))


@cache
def shifted_normals():
    """y = theta + u at many theta: k(y, y') is itself a squared exponential of u."""
    u, problem = designs(), gaussian_problem()
    thetas = problem.prior.sample(jax.random.key(1), len(u))
    runs = stored_simulations(problem, thetas, u, thetas[:, None] + u, base_kernel="tuned")
    return problem, runs


def test_kernel_and_weights_are_those_of_the_law_of_the_simulations():
    tuned = shifted_normals()[1].quadrature
    u = tuned.points
    assert_allclose(tuned.certificate.lengthscale, LENGTHSCALE, rtol=0.05)
    best = owlfi.optimal_weights(SquaredExponential(LENGTHSCALE), Normal(), u)
    exact = owlfi.squared_worst_case_error(
        SquaredExponential(LENGTHSCALE), Normal(), u, tuned.weights
    )
    assert np.median(exact / best.squared_worst_case_error) < 1.2


def test_certificate_is_the_squared_mmd_to_the_law():
    """Which is the worst-case error here, since k(y(u), y(v)) is a kernel of u."""
    tuned = shifted_normals()[1].quadrature
    exact = owlfi.squared_worst_case_error(
        SquaredExponential(LENGTHSCALE), Normal(), tuned.points, tuned.weights
    )
    ratio = np.asarray(tuned.certificate.excess / exact)
    assert 0.5 < np.median(ratio) < 2
    assert np.corrcoef(np.log(tuned.certificate.excess), np.log(exact))[0, 1] > 0.9


def test_distances_of_abc_add_the_error_of_each_theta_s_own_points():
    """Far from the data, the squared MMD is too small by the error of the points."""
    problem, runs = shifted_normals()
    thetas = np.asarray(runs.thetas)[:, 0]
    exact = exact_squared_mmd(problem, thetas)
    exact += LENGTHSCALE / np.sqrt(LENGTHSCALE**2 + 2) + float(problem.data_term())
    far = np.abs(thetas - 1.3) > 5
    plain = np.asarray(problem.squared_mmd(runs.y, runs.quadrature)) - exact
    expected = measure_distances(problem, runs) - exact
    assert np.median(np.abs(expected[far])) < 0.5 * np.median(np.abs(plain[far]))


def test_simulations_that_vary_with_u_in_no_way_have_equal_weights():
    y = jax.random.normal(jax.random.key(2), (60, 8, 1))
    tuned = pooled_weights(SquaredExponential(1.0), Normal(), designs(), y)
    assert_allclose(tuned.weights, 1 / 8)
    assert np.all(np.asarray(tuned.certificate.verdict) == owlfi.Verdict.UNEXPLAINED)


@pytest.mark.parametrize("shape", [(60, 7, 1), (8, 1), (60, 2, 8, 1)])
def test_shapes_that_do_not_fit_are_refused(shape):
    with pytest.raises(ValueError, match=r"points must have shape \(t, m, s\)"):
        pooled_weights(SquaredExponential(1.0), Normal(), designs(), np.ones(shape))
