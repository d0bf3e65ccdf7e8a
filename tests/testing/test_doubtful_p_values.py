"""Tests tell of what makes their p-values doubtful."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import owlfi
from owlfi.testing.health import (
    tell_failed_replicates,
    tell_few_rows,
    tell_limit,
    tell_saturated,
    tell_unfinished_fits,
)

KEY = jax.random.key(0)


def test_failed_and_unfinished_fits_are_told_by_their_share():
    assert tell_failed_replicates(2, 200) == tell_unfinished_fits(True, 10, 200) == ()
    (failed,) = tell_failed_replicates(20, 199)
    assert failed.startswith("20 of 199 fits to replicates failed and count as +∞")
    assert "p may be too large by 0.1;" in failed
    assert "statistics and p may be too large" in tell_unfinished_fits(True, 11, 200)[0]
    assert "p too small" in tell_unfinished_fits(False, 0, 200)[0]


def test_few_rows_matter_where_nothing_is_rejected():
    assert tell_few_rows("x", 20, False) == tell_few_rows("x", 5, True) == tell_limit(30) == ()
    assert tell_few_rows("x", 19, False)[0].startswith("Few rows: x has 19, and of so few only")
    assert "use goodness_of_fit" in tell_limit(29)[0]


def test_two_samples_are_told_by_their_names():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(200, 2)), rng.normal(size=(200, 2))
    assert owlfi.two_sample(KEY, x, y).warnings == ()
    with pytest.warns(owlfi.HealthWarning, match="Rows of y depend on their neighbours"):
        test = owlfi.two_sample(KEY, x, y.cumsum(0) / 10)
    assert len(test.warnings) == 1
    with pytest.warns(owlfi.HealthWarning, match="Few rows: x has 6"):
        owlfi.two_sample(KEY, x[:6], y)


def test_a_model_that_follows_any_data_is_not_rejected_for_the_error_of_its_points():
    """Three values and two parameters: what is left of a misfit is what all designs have alike."""
    assert tell_saturated(2e-3, 1e-3) == ()
    prior = owlfi.Prior(mean=owlfi.Uniform(-30, 30), sd=owlfi.Uniform(0.05, 5))
    model = owlfi.Simulator(
        lambda theta, u: jnp.floor(theta[0] + theta[1] * u),
        owlfi.Normal(),
        prior.names,
        prior=prior,
    )
    problem = owlfi.Problem(model, np.repeat([1.0, 2.0, 3.0], [6, 67, 7]))
    with pytest.warns(owlfi.HealthWarning, match="no misfit is told from that"):
        test = owlfi.wild_goodness_of_fit(KEY, problem, owlfi.OptimallyWeighted(m=64))
    assert test.p_value == 1
