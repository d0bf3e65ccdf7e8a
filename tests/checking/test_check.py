"""Predictive checks see what a model does not reproduce."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import owlfi
from gaussian import gaussian_problem
from owlfi import Estimate, HealthWarning, Normal, Posterior, Prior, Problem, Simulator
from strictness import unchecked

KEY = jax.random.key(0)


def at(problem, *theta, error=0.1):
    p = len(theta)
    return Estimate(
        problem.prior.names, jnp.array(theta), error**2 * jnp.eye(p), jnp.array(0.0), 64
    )


def test_model_that_is_right_passes():
    problem = gaussian_problem()
    found = owlfi.check(KEY, problem, at(problem, 1.3), statistics={"sd": np.std})
    assert found.warnings == ()
    assert found.names == ("squared MMD", "sd")
    assert found["sd"] > 0.02
    assert found.calls == 200 * 80 + 2000


def test_wrong_spread_is_seen_by_statistic_and_kernel():
    problem = gaussian_problem()
    wide = problem.with_data(2.5 * (problem.observed - 1.3) + 1.3)
    with pytest.warns(HealthWarning, match=r"does not give data like those observed: squared MMD"):
        found = owlfi.check(KEY, wide, at(problem, 1.3), statistics={"sd": np.std})
    assert found["sd"] == pytest.approx(2 / 201)
    assert "sd (p = 0.01)" in found.warnings[0]


def test_posteriors_are_taken_draw_by_draw():
    """Replicates of draws far apart are as far apart."""
    problem = gaussian_problem()
    draws = np.array([[1.3 - 2.0], [1.3 + 2.0]])
    result = Posterior(("mean",), draws, np.full(2, 0.5))
    found = owlfi.check(KEY, problem, result, statistics={"mean": np.mean})
    means = np.asarray(found.replicated)[:, 1]
    assert np.std(means) == pytest.approx(2.0, abs=0.1)
    assert found.warnings == ()


def columns(theta, u):
    return theta[0] + u


def wide_problem(d=3, n=60):
    prior = Prior(mean=Normal(0.0, 5.0))
    model = Simulator(columns, Normal(dim=d), prior.names, prior=prior)
    x = np.array(model([0.0], owlfi.iid(jax.random.key(3), n, model.measure)))
    return Problem(model, x, columns=[f"c{j}" for j in range(d)])


def test_worst_column_and_row_are_named():
    problem = wide_problem()
    x = np.array(problem.observed)
    x[:, 1] *= 3
    x[17] = [9.0, 0.0, 9.0]
    with pytest.warns(HealthWarning, match=r"the columns that fit worst are c1"):
        found = owlfi.check(KEY, problem.with_data(x), at(problem, 0.0))
    assert found.worst_columns(1)[0][0] == "c1"
    assert found.worst_rows(1)[0][0] == 17
    assert found["worst column"] == pytest.approx(1 / 201)
    assert "Rows that fit worst: 17 (where no replicate is)" in found.summary()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The model does not give data")  # as often as the level says
def test_level_is_kept_where_the_truth_is_known():
    """Without a fit p-values are uniform: more than 11 of 100 at 0.05 have probability 0.5%."""
    told = 0
    for seed in range(100):
        problem = gaussian_problem(seed, mean=0.5)
        exact = at(problem, 0.5, error=1e-6)
        found = owlfi.check(jax.random.key(seed), problem, exact, replicates=99)
        told += found["squared MMD"] <= 0.05
    assert told <= 11, told


def test_many_rows_are_thinned_for_the_kernel():
    problem = gaussian_problem(n=700)
    found = owlfi.check(KEY, problem, at(problem, 1.3), replicates=39)
    assert found.x.shape == (500, 1)
    assert len(set(found.about["rows"])) == 500


def test_wrong_input_is_refused():
    problem = gaussian_problem()
    with pytest.raises(ValueError, match=r"statistics\['rows'\] must give one finite number"):
        owlfi.check(KEY, problem, at(problem, 1.3), statistics={"rows": lambda x: x[:, 0]})
    with unchecked(), pytest.raises(ValueError, match=r"statistics must be functions .* by name"):
        owlfi.check(KEY, problem, at(problem, 1.3), statistics=[np.max])
    with pytest.raises(ValueError, match=r"replicates = 5 can never reject"):
        owlfi.check(KEY, problem, at(problem, 1.3), replicates=5)
    with pytest.raises(ValueError, match="result has the parameters"):
        owlfi.check(KEY, problem, Posterior(("b",), np.zeros((2, 1)), np.full(2, 0.5)))


def test_few_rows_have_wide_bins_and_one_column_is_not_ranked():
    problem = gaussian_problem(n=5)
    found = owlfi.check(KEY, problem, at(problem, 1.3), replicates=80)
    assert "Columns that fit worst" not in found.summary()
    (ax,) = owlfi.plots.check(found).axes
    assert len([patch for patch in ax.patches if hasattr(patch, "get_height")]) < 10


@pytest.mark.parametrize(("d", "drawn"), [(1, 1), (3, 9), (6, 8), (20, 1)])
def test_picture_suits_the_number_of_columns(d, drawn):
    n = 30
    rng = np.random.default_rng(0)
    found = owlfi.PredictiveCheck(
        ("squared MMD",),
        jnp.ones(1),
        jnp.ones((20, 1)),
        jnp.ones(1),
        jnp.asarray(rng.normal(size=(n, d))),
        jnp.asarray(rng.normal(size=(5, n, d))),
        jnp.asarray(rng.normal(size=n)),
    )
    assert len(owlfi.plots.check(found).axes) == drawn
