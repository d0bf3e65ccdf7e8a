"""What is compiled for one fit serves other numbers of rows, starts and thetas."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import owlfi
from gaussian import RULE, gaussian_problem
from owlfi._tools.arrays import next_rung
from owlfi.inference.search.designs import no_designs
from owlfi.inference.search.objective import objective_of
from owlfi.inference.search.sandwich import sandwich
from owlfi.inference.search.tangent import tangent_by_slopes

KEY = jax.random.key(0)


@pytest.fixture
def compiled():
    """The programs that are compiled, or read from those kept, as they come."""
    programs = []

    def listen(event, *_, **__):
        if event.endswith("backend_compile_duration"):
            programs.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield programs
    jax.monitoring.unregister_event_duration_listener(listen)


def test_sizes_are_few():
    rungs = {next_rung(n) for n in range(50, 5001)}
    assert len(rungs) <= 12
    assert all(next_rung(n) <= 2 * n for n in range(16, 5001))


def test_other_rows_and_starts_compile_nothing(compiled):
    def fit(n, **options):
        problem = gaussian_problem(n=128)
        fewer = owlfi.Problem(
            problem.simulator, np.asarray(problem.observed)[:n], data_kernel=problem.data_kernel
        )
        return owlfi.minimum_distance(KEY, fewer, RULE, **options)

    fit(80)
    before = len(compiled)
    fit(97, starts=11, refined=3)
    assert len(compiled) == before


def test_other_numbers_of_thetas_compile_nothing(compiled):
    problem = gaussian_problem()
    design, counts = RULE.quadrature(KEY, problem), []
    for thetas in (9, 13):
        owlfi.simulate(problem.simulator, np.linspace(0, 1, thetas), design)
        counts.append(len(compiled))
    assert counts[0] == counts[1]


def test_rows_that_fill_a_rung_change_nothing():
    problem = gaussian_problem()
    plain = objective_of(problem, RULE.quadrature(KEY, problem))
    filled, theta = plain.fill(), jnp.array([1.1])
    assert len(filled.observed) == 128
    assert filled.n == 80

    def look(objective):
        tangent, *_ = tangent_by_slopes(objective, theta, no_designs(objective))
        errors = sandwich(tangent, objective.shares, jnp.ones(1), np.float64(0.0))
        return eqx.filter_jit(lambda o: o.at(theta))(objective), tangent.hessian, errors.covariance

    for found, expected in zip(look(filled), look(plain), strict=True):
        assert_allclose(found, expected, rtol=1e-10)
