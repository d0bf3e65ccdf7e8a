"""Summaries take the place of rows, of observations and simulations alike."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import campaign_models
import owlfi
from owlfi import Normal, Prior, Problem, Simulator, Uniform
from owlfi.weights.quadrature import unweighted

KEY = jax.random.key(0)


def series(theta, u):
    return theta[0] + theta[1] * u


def model(on_host=False):
    prior = Prior(mean=Uniform(-5, 5), spread=Uniform(0.1, 3))
    generator = (lambda theta, u: np.asarray(theta[0] + theta[1] * u)) if on_host else series
    noise = Normal(dim=8)
    return Simulator(generator, noise, ["mean", "spread"], prior=prior, on_host=on_host or None)


def observations():
    return model()([1.0, 0.5], owlfi.iid(KEY, 100, Normal(dim=8)))


def moments_in_jax(rows):
    return jnp.stack([rows.mean(1), jnp.log(rows.std(1))], 1)


def moments_in_numpy(rows):
    return np.stack([np.mean(rows, 1), np.log(np.std(np.asarray(rows), 1))], 1)


BY_NAME = {"mean": lambda rows: rows.mean(1), "log_sd": lambda rows: jnp.log(rows.std(1))}


@pytest.mark.parametrize(
    ("summaries", "on_host", "in_jax"),
    [
        (moments_in_jax, False, True),
        (BY_NAME, False, True),
        (moments_in_numpy, False, False),
        (moments_in_numpy, True, False),
    ],
)
def test_simulations_and_observations_are_summarised_alike(summaries, on_host, in_jax):
    x = observations()
    problem = Problem(model(on_host), x, summaries=summaries)
    u = owlfi.iid(KEY, 100, Normal(dim=8))
    assert_allclose(problem.observed, moments_in_numpy(np.asarray(x)), rtol=1e-12)
    assert_allclose(problem.simulator.rows(jnp.array([1.0, 0.5]), u), problem.observed, rtol=1e-9)
    assert problem.simulator.on_host is not in_jax


@pytest.mark.slow
def test_fits_are_of_the_summaries():
    problem = Problem(model(), observations(), summaries=moments_in_jax)
    estimate = owlfi.minimum_distance(KEY, problem, owlfi.VStatistic(128, owlfi.sobol))
    assert_allclose(estimate.theta, [1.0, 0.5], atol=0.1)


def test_columns_have_names():
    assert Problem(model(), observations(), summaries=BY_NAME).columns == ("mean", "log_sd")
    assert Problem(model(), observations()).columns[:2] == ("column_0", "column_1")
    named = Problem(model(), observations(), summaries=moments_in_jax, columns=["a", "b"])
    assert named.with_kernel(owlfi.SquaredExponential(1.0)).columns == ("a", "b")


def test_another_kernel_does_not_summarise_twice():
    problem = Problem(model(), observations(), summaries=moments_in_jax)
    other = problem.stretch(2.0)
    assert_allclose(other.observed, problem.observed)


@pytest.mark.parametrize(
    ("summaries", "message"),
    [
        (lambda rows: rows.mean(0), "one row for each of the 100 rows"),
        ({"broken": lambda rows: np.log(rows[:, 0] - 1e9)}, "broken is NaN or infinite for row 0"),
        (lambda rows: rows[None], "got shape"),
        (lambda rows: rows - rows.mean(0), "let row i depend on row i alone"),
        (3.0, "summaries must be a function of rows"),
        ({}, "summaries must be a function of rows"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_summaries_that_cannot_serve_are_refused(summaries, message):
    with pytest.raises(ValueError, match=message):
        Problem(model(), observations(), summaries=summaries)


def test_data_and_simulator_must_have_the_same_columns_before_they_are_summarised():
    means = {"mean": lambda rows: rows.mean(1)}
    with pytest.raises(ValueError, match="observed has 5 columns where the simulator gives 8"):
        Problem(model(), np.ones((9, 5)) + np.arange(9.0)[:, None], summaries=means)
    late = Problem(model(on_host=True), np.arange(45.0).reshape(9, 5), summaries=means)
    with pytest.raises(ValueError, match="gives 8 columns where 5 were observed"):
        late.simulator([1.0, 0.5], np.zeros((2, 8)))


@pytest.mark.parametrize("on_host", [False, True])
def test_failed_rows_have_no_summaries(on_host):
    """A count of positive numbers would not show that some are NaN, and some functions raise."""

    def fails_at(theta, u):
        numpy = np if on_host else jnp
        return numpy.where(u[:, :1] > 0, theta[0] + u, numpy.nan)

    def count(rows):
        if on_host and np.isnan(rows).any():
            raise AssertionError
        return (rows > 0).sum(1)

    prior = Prior(mean=Uniform(-5, 5))
    simulator = Simulator(fails_at, Normal(dim=3), ["mean"], prior=prior, on_host=on_host)
    problem = Problem(simulator, np.random.default_rng(0).normal(size=(30, 3)), summaries=count)
    y = problem.simulator.rows(jnp.array([1.0]), jnp.array([[1.0, 0, 0], [-1.0, 0, 0], [2, -9, 1]]))
    assert_allclose(y, [[3.0], [np.nan], [2.0]])
    none = problem.simulator.rows(jnp.array([1.0]), -jnp.ones((2, 3)))
    assert none.shape == (2, 1)


def test_columns_of_several_summaries_are_numbered():
    quartiles = {"mean": lambda rows: rows.mean(1), "ends": lambda rows: rows[:, [0, 7]]}
    problem = Problem(model(), observations(), summaries=quartiles)
    assert problem.columns == ("mean", "ends_0", "ends_1")
    assert "; summaries mean, ends; data kernel" in repr(problem)


def test_names_of_columns_come_from_frames_and_files(tmp_path):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(9, 2)), columns=["speed", "power"])
    pairs = Simulator(series, Normal(dim=2), ["mean", "spread"], prior=model().prior)
    assert Problem(pairs, frame).columns == ("speed", "power")
    frame.to_csv(tmp_path / "named.csv", index=False)
    frame.to_csv(tmp_path / "bare.csv", index=False, header=False)
    assert Problem(pairs, tmp_path / "named.csv").columns == ("speed", "power")
    assert Problem(pairs, tmp_path / "bare.csv").columns == ("column_0", "column_1")
    with pytest.raises(ValueError, match="columns must be 2 names"):
        Problem(pairs, frame, columns=["speed"])


def test_plots_show_names_of_columns():
    problem = Problem(model(), observations(), summaries=BY_NAME)
    axes = owlfi.plots.predictive(problem, np.asarray(problem.observed)[None])
    assert [ax.get_xlabel() for ax in axes] == ["mean", "log_sd"]


@pytest.mark.parametrize("summaries", [moments_in_jax, moments_in_numpy])
def test_summarised_simulators_can_be_fixed_and_take_uniform_noise(summaries):
    problem = Problem(model(), observations(), summaries=summaries)
    u = jnp.full((3, 8), 0.3) + 0.1 * jnp.arange(8.0)[None]
    expected = problem.simulator.rows(jnp.array([1.0, 0.5]), u)
    fixed = problem.simulator.fix(mean=1.0)
    assert_allclose(fixed.rows(jnp.array([0.5]), u), expected, rtol=1e-12)
    assert Problem(fixed, problem.observed).prior.names == ("spread",)
    uniform = problem.simulator.uniform()
    v = jax.scipy.stats.norm.cdf(u)
    assert_allclose(uniform.rows(jnp.array([1.0, 0.5]), v), expected, rtol=1e-9)


@pytest.mark.parametrize("summaries", [moments_in_jax, moments_in_numpy])
def test_stored_rows_are_summarised(summaries):
    problem = Problem(model(), observations(), summaries=summaries)
    thetas = problem.prior.sample(KEY, 40)
    u = owlfi.sobol(KEY, 16, problem.simulator.measure)
    rows = owlfi.simulate(model(), thetas, unweighted(u))
    there = owlfi.simulate(problem.simulator, thetas, unweighted(u))
    assert_allclose(problem.summarise(rows).y, there.y, rtol=1e-9)
    stored = owlfi.stored_simulations(problem, thetas, u, rows.y)
    assert_allclose(stored.y, there.y, rtol=1e-9)
    posterior = owlfi.accept(problem, stored, share=0.1)
    assert_allclose(posterior.mean, owlfi.accept(problem, there, share=0.1).mean, rtol=1e-9)
    plain = Problem(model(), observations())
    assert plain.summarise_rows(rows.y) is rows.y


def test_campaigns_keep_rows_and_propose_by_their_summaries(tmp_path):
    simulator = Simulator(campaign_models.pairs, Normal(dim=2), ["a"], prior=Prior(a=Uniform(0, 5)))
    x = simulator([2.0], owlfi.iid(KEY, 30, Normal(dim=2)))
    problem = Problem(simulator, x, summaries=campaign_models.sums)
    u = unweighted(owlfi.sobol(KEY, 8, Normal(dim=2)))
    starts = problem.prior.starts(KEY, 8)
    for name, run in {"rows": simulator, "summaries": problem.simulator}.items():
        campaign = owlfi.Campaign.create(tmp_path / f"{name}.sqlite", run, starts, u)
        campaign.run(executor="here")
        runs = campaign.results()
        assert runs.y.shape == (8, 8, 2 if name == "rows" else 1)
        assert campaign.propose(jax.random.key(1), problem, 4).shape == (4, 1)
        if name == "rows":
            runs = problem.summarise(runs)
        posterior = owlfi.accept(problem, runs, share=0.3)
        assert abs(float(posterior.mean[0]) - 2.0) < 1.0
