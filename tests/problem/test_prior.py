"""A prior is a product of named measures on the line."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose

from owlfi import Empirical, Exponential, Gamma, Mixture, Normal, Poisson, Prior, Uniform


def test_sample_has_a_column_for_each_name():
    prior = Prior(a=Uniform(2, 3), b=Poisson(4.0), c=scipy.stats.norm(-5, 0.1))
    theta = np.asarray(prior.sample(jax.random.key(0), 400))
    assert prior.names == ("a", "b", "c")
    assert theta.shape == (400, 3)
    assert ((theta[:, 0] > 2) & (theta[:, 0] < 3)).all()
    assert (theta[:, 1] == np.round(theta[:, 1])).all()
    assert_allclose(theta.mean(0), [2.5, 4, -5], atol=4 * 2 / np.sqrt(400))


def test_log_density_adds_over_parameters():
    prior = Prior(a=Normal(1, 2), b=scipy.stats.gamma(2.5))
    theta = np.array([[0.3, 0.7], [2.0, 4.0]])
    expected = scipy.stats.norm(1, 2).logpdf(theta[:, 0]) + scipy.stats.gamma(2.5).logpdf(
        theta[:, 1]
    )
    assert_allclose(prior.log_density(theta), expected, rtol=1e-12)
    assert prior.log_density([0.0, -1.0]) == -np.inf


def test_prior_of_some_parameters():
    prior = Prior(a=Normal(), b=Uniform(), c=Uniform(5, 6))
    assert prior.of(("c", "a")).names == ("c", "a")
    assert 5 < float(prior.of(("c", "a")).sample(jax.random.key(0), 1)[0, 0]) < 6


def test_marginal_of_several_dimensions_is_refused():
    with pytest.raises(ValueError, match="prior of b must be a measure on the line"):
        Prior(a=Normal(), b=Normal(dim=2))


def test_theta_of_the_wrong_length_is_refused():
    with pytest.raises(ValueError, match=r"2 columns \(a, b\)"):
        Prior(a=Normal(), b=Normal()).log_density([1.0, 2.0, 3.0])


def test_starts_spread_evenly_over_the_prior():
    starts = np.asarray(Prior(a=Uniform(0, 8), b=Normal()).starts(jax.random.key(0), 8))
    assert sorted(np.floor(starts[:, 0])) == list(range(8))


def test_bounds_and_density_on_the_real_line():
    """The density of v integrates to one where that of theta does."""
    prior = Prior(a=Exponential(2.0))
    low, high = prior.bounds
    assert (low[0], high[0]) == (0, np.inf)
    v = np.linspace(-30, 6, 4001)[:, None]
    total = np.exp(jax.vmap(prior.real_log_density)(jnp.asarray(v))).sum() * (v[1, 0] - v[0, 0])
    assert_allclose(total, 1, rtol=1e-6)


def test_prior_is_shown_as_it_is_written():
    prior = Prior(a=Uniform(0, 10), b=scipy.stats.gumbel_r(2.0), c=Exponential(0.5))
    text = "Prior(a=Uniform(0.0, 10.0), b=scipy.stats.gumbel_r(2.0), c=Exponential(0.5))"
    assert repr(prior) == text
    assert repr(Prior(value=Uniform(), arguments=Uniform())).startswith("Prior(value=Uniform(")
    assert "<td>b</td><td>scipy.stats.gumbel_r(2.0)</td>" in prior._repr_html_()


@pytest.mark.parametrize(
    ("measure", "quantiles", "density"),
    [
        (Normal(), True, True),
        (Gamma(), False, True),
        (Mixture([Normal(), scipy.stats.gumbel_r()], [0.5, 0.5]), False, False),
    ],
)
def test_prior_says_what_runs_inside_jit(measure, quantiles, density):
    prior = Prior(a=Uniform(), b=measure)
    assert (prior.measure.traceable, prior.measure.traceable_density) == (quantiles, density)


@pytest.mark.parametrize(
    "discrete", [Poisson(2.0), scipy.stats.binom(3, 0.2), Empirical([1.0, 2.0])]
)
def test_discrete_parameters_are_named(discrete):
    with pytest.raises(ValueError, match=r"gradients needs continuous.*of b is discrete"):
        Prior(a=Normal(), b=discrete).check_continuous("gradients")


def test_draws_as_a_prior_are_told_how_to_be_smooth():
    prior = Prior.joint(["a", "b"], Empirical([[1.0, 2.0], [2.0, 3.0]]))
    with pytest.raises(ValueError, match=r"of a, b is discrete: an Empirical.*Smoothed\(draws\)"):
        prior.check_continuous("gradients")
