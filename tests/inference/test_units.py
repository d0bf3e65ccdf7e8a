"""Results do not depend on the units of parameters and data: one may be 1e-6, another 1e6."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import owlfi
from owlfi import Normal, Prior, Problem, Simulator, VStatistic
from owlfi._tools.covariances import root_of
from owlfi.inference.efficient.free_mass import move_theta
from owlfi.inference.search.profile import _ridge_steps
from owlfi.inference.search.sandwich import Sandwich
from owlfi.inference.search.tangent_by_regression import _without_noise

KEY = jax.random.key(0)
RULE = VStatistic(64, owlfi.sobol)


def two_means(units):
    """80 rows of two normal columns with unknown means, in other units."""
    big, small = units
    prior = Prior(big=Normal(0.0, 5.0 * big), small=Normal(0.0, 5.0 * small))
    scale = np.array([units])

    def shift(theta, u):
        return theta[None] + scale * u

    model = Simulator(shift, Normal(dim=2), prior.names, prior=prior)
    return Problem(model, model([big, -small], owlfi.iid(KEY, 80, model.measure)))


@pytest.mark.parametrize(
    ("method", "options", "rtol"),
    [
        (owlfi.rejection_abc, {"draws": 400, "adjust": True}, 1e-4),
        pytest.param(
            owlfi.rejection_abc,
            {"draws": 400, "discrepancy": "efficient"},
            1e-4,
            marks=pytest.mark.slow,
        ),
        (owlfi.sequential_abc, {"draws": 200, "keep": 100, "rounds": 2}, 1e-4),
        pytest.param(
            owlfi.mmd_bayes,
            {"draws": 200, "chains": 2, "warmup": 100},
            0.3,
            marks=pytest.mark.slow,
        ),
    ],
    ids=["adjusted", "efficient", "sequential", "mmd_bayes"],
)
def test_draws_are_the_same_in_other_units(method, options, rtol):
    usual = method(KEY, two_means((1.0, 1.0)), RULE, **options)
    other = method(KEY, two_means((1e6, 1e-6)), RULE, **options)
    assert other.warnings == usual.warnings
    sd = np.asarray(usual.sd)
    assert_allclose(other.mean / np.array([1e6, 1e-6]), usual.mean, atol=rtol * sd.max())
    assert_allclose(other.sd / np.array([1e6, 1e-6]), sd, rtol=rtol)


def test_the_wild_test_is_the_same_in_other_units():
    usual, other = (
        owlfi.wild_goodness_of_fit(KEY, two_means(units), RULE)
        for units in [(1.0, 1.0), (1e6, 1e-6)]
    )
    assert_allclose(other.critical_value, usual.critical_value, rtol=1e-6)


def test_a_root_keeps_what_is_small_in_its_units():
    units = np.array([1e6, 1e-6])
    covariance = np.array([[1.0, 0.5], [0.5, 1.0]]) * np.outer(units, units)
    root = root_of(covariance)
    assert_allclose(root @ root.T, covariance, rtol=1e-9)
    assert np.isfinite(root_of(np.outer(units, units))).all()  # of one direction


def test_intervals_follow_ridges_in_any_units():
    hessian, units = np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([1e6, 1e-6])
    nothing = jnp.zeros(2)

    def steps(scale):
        found = hessian / np.outer(scale, scale)
        covariance = np.linalg.inv(hessian) * np.outer(scale, scale)
        return _ridge_steps(Sandwich(jnp.array(covariance), jnp.array(found), *[nothing] * 5))

    assert_allclose(steps(units) / units, steps(np.ones(2)))


def test_a_step_on_the_whole_line_goes_as_far_as_it_is_told():
    """One step of a logarithm is at most 2; that of a number may be thousands."""
    ends = jnp.array([-jnp.inf, 0.0]), jnp.array([jnp.inf, jnp.inf])
    moved = move_theta(np.array([1e3, 1.0]), np.array([500.0, 100.0]), ends)[0]
    assert_allclose(moved, [1500.0, np.exp(2.0)])


def test_noise_is_taken_off_slopes_in_any_units():
    metric, noise = jnp.array([[2.0, 1.0], [1.0, 2.0]]), jnp.array([[0.5, 0.2], [0.2, 0.4]])
    scale = jnp.array([[1e-12, 1.0], [1.0, 1e12]])
    left, share = _without_noise(metric * scale, noise * scale)
    usual, same = _without_noise(metric, noise)
    assert_allclose(left / scale, usual, rtol=1e-6)
    assert_allclose(share, same)
