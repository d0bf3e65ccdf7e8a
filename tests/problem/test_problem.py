"""Problems and the quadratures that rules make for them are shown in a few words."""

from functools import cache
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import pytest
import scipy.stats

import owlfi
from gaussian import gaussian_problem
from owlfi import Matern, Normal, Prior, Problem, Quadrature, Simulator, SquaredExponential

KEY = jax.random.key(0)


@cache
def problem():
    prior = Prior(loc=Normal(0, 3), scale=scipy.stats.gumbel_r(2.0, 0.5))
    model = Simulator(lambda theta, u: theta[0] + theta[1] * u, Normal(), ["loc", "scale"])
    return Problem(model, jnp.arange(12.0), prior=prior, data_kernel=Matern(1.5, 2.0))


@cache
def quadratures():
    model, points = gaussian_problem(), jnp.linspace(-2, 2, 8)[:, None]
    designs = jnp.stack([points, points + 0.1])
    return {
        "equal": owlfi.VStatistic(10).quadrature(KEY, model),
        "unbiased": owlfi.UStatistic(10).quadrature(KEY, model),
        "optimal": owlfi.OptimallyWeighted(8, base_kernel=SquaredExponential()).quadrature(
            KEY, model
        ),
        "tuned": owlfi.OptimallyWeighted(16).quadrature(KEY, model),
        "designs": owlfi.optimal_weights(SquaredExponential(), Normal(), designs),
        "equal with error": owlfi.equal_weights(SquaredExponential(), Normal(), points),
    }


def test_problem_is_shown_by_its_parameters_data_and_kernel():
    assert repr(problem()) == (
        "Problem(loc ~ Normal(0.0, 3.0), scale ~ scipy.stats.gumbel_r(2.0, 0.5); "
        "12 × 1 observations; data kernel Matern(1.5, 2.0))"
    )
    table = ElementTree.fromstring(problem()._repr_html_())
    assert table[0].text == "Problem; 12 × 1 observations; data kernel Matern(1.5, 2.0)"
    assert [cell.text for cell in table[1]] == ["parameter", "prior"]
    assert [cell.text for cell in table[2]] == ["loc", "Normal(0.0, 3.0)"]


def test_quadratures_are_shown_by_size_weights_and_error():
    shown = {name: repr(quadrature) for name, quadrature in quadratures().items()}
    assert shown["equal"] == "Quadrature(10 points in 1 dimension; equal weights)"
    assert "; equal weights, U-statistic)" in shown["unbiased"]
    assert "8 points in 1 dimension; optimal weights; worst-case error 0." in shown["optimal"]
    assert "; weights tuned to simulations; estimated excess MMD² " in shown["tuned"]
    assert shown["designs"].startswith("Quadrature(2 designs of 8 points in 1 dimension; optimal")
    assert "; equal weights; worst-case error 0." in shown["equal with error"]


@pytest.mark.parametrize("name", ["equal", "optimal"])
def test_quadratures_are_tables_in_notebooks(name):
    table = ElementTree.fromstring(quadratures()[name]._repr_html_())
    assert table[0].text == "Quadrature"
    assert table[2][0].text == f"{name} weights"


def test_traced_problems_and_quadratures_are_shown_by_their_shape():
    shown = []

    @jax.jit
    def inside(x):
        ones = jnp.ones(())
        shown.append(repr(Quadrature(x[:, None], x, ones, ones, ones)))
        stated = problem()
        kernel = Matern(1.5, x[0])
        shown.append(repr(Problem(stated.simulator, x, prior=stated.prior, data_kernel=kernel)))
        return x

    inside(jnp.ones(5))
    assert shown[0] == "Quadrature(5 points in 1 dimension)"
    assert shown[1].endswith("5 × 1 observations; data kernel Matern(1.5, f64[]))")
