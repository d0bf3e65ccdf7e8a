"""Measures and kernels are shown as one writes them."""

from math import inf

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import owlfi
from catalogue import KERNELS, MEASURES, SPACES
from owlfi import (
    Constant,
    Empirical,
    FunctionKernel,
    Matern,
    Mixture,
    Normal,
    Poisson,
    Product,
    SquaredExponential,
    Uniform,
    as_measure,
)
from owlfi.kernels.transformed import Transformed

NAMES = {name: getattr(owlfi, name) for name in owlfi.__all__} | {"inf": inf, "scipy": scipy}
SHOWN = {name: row.measure for name, row in (MEASURES | SPACES).items()}
WRITTEN = {
    name: measure
    for name, measure in SHOWN.items()
    if name != "empirical" and not name.startswith("scipy")
}


@pytest.mark.parametrize("measure", WRITTEN.values(), ids=WRITTEN)
def test_measures_are_shown_as_the_call_that_makes_them(measure):
    assert eval(repr(measure), NAMES) == measure


@pytest.mark.parametrize("lengthscale", [0.7, [0.7, 0.7], [0.7, 1.0]])
@pytest.mark.parametrize("row", KERNELS.values(), ids=KERNELS)
def test_kernels_are_shown_as_the_expression_that_makes_them(row, lengthscale):
    kernel = row.make(jnp.asarray(lengthscale))
    assert eval(repr(kernel), NAMES) == kernel


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Uniform(0.1, 3), "Uniform(0.1, 3.0)"),
        (Normal(dim=2), "Normal(0.0, 1.0, dim=2)"),
        (Normal([1, 2], 0.5), "Normal([1.0, 2.0], 0.5)"),
        (Normal(np.arange(9)), "Normal([0.0, 1.0, 2.0, 3.0, ..., 8.0], 1.0)"),
        (Poisson(2), "Poisson(2.0)"),
        (Empirical([[1.0, 2.0]]), "Empirical(1 atom in 2 dimensions)"),
        (as_measure(scipy.stats.binom(7, p=0.25)), "scipy.stats.binom(7, p=0.25)"),
        (
            Product(Normal(), scipy.stats.gumbel_r(0.5)),
            "Product(Normal(0.0, 1.0), scipy.stats.gumbel_r(0.5))",
        ),
        (SquaredExponential(), "SquaredExponential(1.0)"),
        (2 * (Matern() + 0.5), "2.0 * (Matern(2.5, 1.0) + Constant(0.5))"),
        (
            Constant() * (Constant() * (2 * Constant())),
            "Constant(1.0) * (Constant(1.0) * (2.0 * Constant(1.0)))",
        ),
        (FunctionKernel(np.dot), "FunctionKernel(dot)"),
        (
            Transformed(Matern(), jnp.eye(2)),
            "Transformed(Matern(2.5, 1.0), f64[2,2])",
        ),
    ],
)
def test_what_is_shown(value, text):
    assert repr(value) == text


def test_traced_numbers_are_shown_by_their_shape():
    shown = []

    @jax.jit
    def inside(x):
        shown.extend(map(repr, [Normal(x), Mixture([Normal(x)], [x]), 2 * SquaredExponential(x)]))
        return x

    inside(1.0)
    assert shown[0].startswith("Normal(f64[1]")
    assert shown[1].startswith("Mixture([Normal(f64[1]")
    assert shown[2] == "2.0 * SquaredExponential(f64[])"


def test_measures_without_numbers_can_be_shown():
    assert repr(eqx.filter(Normal(), lambda leaf: False)) == "Normal(None, None)"
    assert "ShapeDtypeStruct" in repr(jax.eval_shape(Normal))
    assert repr(jax.vmap(Normal)(jnp.ones(3))) == "Normal(f64[3,1], f64[3,1])"
