"""Results can be read, kept, plotted and handed to ArviZ."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import owlfi
from gaussian import gaussian_problem
from owlfi import Estimate, Posterior, plots

KEY = jax.random.key(0)
NAMES = ("a", "b")


def estimate():
    covariance = jnp.array([[0.04, 0.0], [0.0, 0.01]])
    trace = jnp.array([[0.0, 0.0], [1.0, 2.0]]), jnp.array([0.5, 0.1])
    return Estimate(NAMES, jnp.array([1.0, 2.0]), covariance, jnp.array(0.1), 7, 3, True, *trace)


def posterior(chains=2):
    draws = jax.random.normal(KEY, (400, 2)) * jnp.array([1.0, 3.0])
    return Posterior(NAMES, draws, jnp.full(400, 1 / 400), 12, chains, {"beta": 2.0})


def test_estimate_has_normal_intervals():
    low, high = estimate().interval(0.95)
    assert_allclose(low, [1 - 0.392, 2 - 0.196], atol=1e-4)
    assert_allclose(high, [1 + 0.392, 2 + 0.196], atol=1e-4)


@pytest.mark.parametrize("result", [estimate(), posterior()])
def test_summary_has_a_row_for_each_parameter(result):
    rows = result.summary().splitlines()
    assert [row.split()[0] for row in rows] == ["parameter", "a", "b"]


def test_weighted_moments_and_quantiles():
    result = Posterior(("a",), jnp.array([[0.0], [1.0], [2.0]]), jnp.array([0.25, 0.5, 0.25]))
    assert_allclose(result.mean, [1.0])
    assert_allclose(result.sd, [np.sqrt(0.5)])
    assert_allclose(result.quantile(0.5), [1.0])


def test_quantiles_of_equal_weights_are_those_of_the_draws():
    low, high = posterior().interval(0.9)
    expected = np.quantile(np.asarray(posterior().draws), [0.05, 0.95], axis=0)
    assert_allclose([low, high], expected, atol=0.1)


@pytest.mark.parametrize("result", [estimate(), posterior()])
def test_saved_results_come_back_without_pickle(result, tmp_path):
    again = owlfi.load(result.save(tmp_path / "result"))
    assert type(again) is type(result)
    assert jax.tree.structure(again) == jax.tree.structure(result)
    for new, old in zip(jax.tree.leaves(again), jax.tree.leaves(result), strict=True):
        assert_allclose(new, old, rtol=0)


def test_other_files_are_refused(tmp_path):
    file = tmp_path / "other.npz"
    np.savez(file, x=np.ones(3))
    with pytest.raises(ValueError, match="no file that owlfi saved"):
        owlfi.load(file)


def test_arviz_has_every_chain():
    group = posterior().to_arviz().posterior
    assert group["a"].shape == (2, 200)


def test_arviz_asks_for_a_key_to_resample_weighted_draws():
    weighted = Posterior(("a",), jnp.array([[0.0], [1.0]]), jnp.array([0.9, 0.1]))
    with pytest.raises(ValueError, match="give a key"):
        weighted.to_arviz()
    assert weighted.to_arviz(KEY).posterior["a"].shape == (1, 2)


def test_predictive_data_sets_are_simulated_at_the_draws():
    problem = gaussian_problem()
    certain = Posterior(("mean",), jnp.array([[50.0]]), jnp.ones(1))
    y = certain.predictive(KEY, problem.simulator, 5, 30)
    assert y.shape == (5, 30, 1)
    assert_allclose(y.mean(), 50, atol=4 / np.sqrt(150))


def test_plots_draw_on_the_axes_they_are_given():
    problem = gaussian_problem()
    axes = plots.new_axes(1, 2)
    assert plots.marginals(posterior(), axes, truth=[0.0, 0.0], label="one")[0] is axes[0, 0]
    assert plots.pairs(posterior(), truth=[0.0, 0.0]).shape == (2, 2)
    assert len(plots.trace(estimate())) == 2
    assert len(plots.trace(posterior())[0].lines) == 2
    samples = jnp.ones((3, 10, 1)) + problem.observed[:10]
    assert len(plots.predictive(problem, samples)) == 1
    quadrature = owlfi.VStatistic(10).quadrature(KEY, problem)
    assert plots.weights(quadrature).get_ylabel() == "weight"


def test_axes_of_the_wrong_number_are_refused():
    with pytest.raises(ValueError, match="must hold 2 axes, got 1"):
        plots.marginals(posterior(), plots.new_axes())


def test_level_outside_0_to_1_is_refused():
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        estimate().interval(90)


def test_dots_in_a_name_are_no_ending(tmp_path):
    first, second = (posterior().save(tmp_path / f"post_0.{digits}") for digits in ("05", "10"))
    assert first != second
    assert_allclose(owlfi.load(tmp_path / "post_0.05").draws, owlfi.load(first).draws)


def test_plots_are_there_when_asked_for():
    assert owlfi.plots is plots
    with pytest.raises(AttributeError, match="no attribute 'plotz'"):
        owlfi.plotz  # noqa: B018
