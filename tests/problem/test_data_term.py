"""The statement of a problem: its data term is computed once, and is always that of its kernel."""

import equinox as eqx
import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

import owlfi
from owlfi import Matern, Problem, SquaredExponential

X = np.random.default_rng(0).normal(size=(12, 2))


def problem(data_kernel=None):
    prior = owlfi.Prior(a=owlfi.Uniform(0, 1))
    model = owlfi.Simulator(lambda theta, u: theta[0] + u, owlfi.Normal(dim=2), ["a"], prior=prior)
    return Problem(model, X, data_kernel=data_kernel)


def mean_of_pairs(kernel, unbiased):
    gram = np.asarray(kernel.gram(X, X))
    off = gram.sum() - np.trace(gram)
    return off / (12 * 11) if unbiased else gram.mean()


@pytest.mark.parametrize("unbiased", [False, True])
def test_data_term_is_the_mean_over_pairs(unbiased):
    kernel = SquaredExponential(0.7)
    assert_allclose(
        problem(kernel).data_term(unbiased), mean_of_pairs(kernel, unbiased), rtol=1e-13
    )


@pytest.mark.parametrize(
    "replace",
    [
        lambda stated, kernel: stated.with_kernel(kernel),
        lambda stated, kernel: eqx.tree_at(lambda p: p.data_kernel, stated, kernel),
    ],
    ids=["with_kernel", "tree_at"],
)
def test_data_term_follows_a_kernel_that_is_replaced(replace):
    stated, kernel = problem(), Matern(1.5, 2.0)
    stated.data_term()
    assert_allclose(replace(stated, kernel).data_term(), mean_of_pairs(kernel, False), rtol=1e-13)


def test_data_term_is_computed_once():
    calls = []

    def linear(a, b):
        calls.append(1)
        return a @ b

    stated = problem(linear)
    first = stated.data_term()
    count = len(calls)
    assert stated.data_term() == first
    assert len(calls) == count


def test_data_term_first_asked_for_inside_a_program_serves_outside():
    stated = problem()
    inside = jax.jit(lambda scale: scale * stated.data_term())(1.0)
    assert_allclose(stated.data_term(), inside, rtol=1e-15)


def test_data_term_of_a_traced_problem_may_be_asked_for_in_inner_loops():
    stated = problem()

    @eqx.filter_jit
    def twice(traced):
        inner = jax.lax.map(lambda scale: scale * traced.data_term(), jax.numpy.ones(2))
        return inner[0] + traced.data_term()

    assert_allclose(twice(stated), 2 * stated.data_term(), rtol=1e-14)


def test_kernels_that_do_not_fit_the_data_are_refused_at_once():
    with pytest.raises(ValueError, match="3 entries"):
        problem(SquaredExponential([1.0, 2.0, 3.0]))


def test_a_stretched_kernel_is_no_longer_that_of_the_median():
    assert problem().median
    assert not problem().stretch(2.0).median


def test_stretched_problem_has_a_stretched_kernel():
    stretched = problem(SquaredExponential(0.5)).stretch(3.0)
    assert_allclose(stretched.data_kernel.lengthscale, 1.5)
    assert_allclose(
        stretched.data_term(), mean_of_pairs(SquaredExponential(1.5), False), rtol=1e-13
    )
