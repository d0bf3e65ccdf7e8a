"""A series given as independent rows is seen; independent rows, of whatever law, are left alone."""

import time

import numpy as np
import pytest
from scipy.signal import lfilter

import owlfi
from gaussian import gaussian_problem
from owlfi.problem.dependence import tell_dependence


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def series(rng, n, d, rho):
    """d independent autoregressions of order 1, in their stationary state."""
    return lfilter([1.0], [1.0, -rho], rng.normal(size=(n + 200, d)), axis=0)[200:]


@pytest.mark.parametrize("rho", [0.5, -0.5])
def test_series_are_seen(rng, rho):
    """At n = 200 one in 300 is missed, so 3 of 50 with probability 1e-3."""
    assert sum(bool(tell_dependence("x", series(rng, 200, 1, rho))) for _ in range(50)) >= 48


def test_a_series_in_one_column_of_many_is_named(rng):
    rows = rng.normal(size=(500, 8))
    rows[:, 3] = series(rng, 500, 1, 0.6)[:, 0]
    (told,) = tell_dependence("observed", rows)
    assert "Rows of observed depend on their neighbours (column 3 has rank correlation 0." in told
    assert "give each independent series as one row" in told


INDEPENDENT = {
    "normal": lambda rng, size: rng.normal(size=size),
    "heavy tails": lambda rng, size: rng.standard_cauchy(size),
    "coins": lambda rng, size: rng.integers(0, 2, size) * 1.0,
    "counts": lambda rng, size: rng.poisson(0.3, size) * 1.0,
    "rare": lambda rng, size: (rng.random(size) < 0.01) * 1.0,
    "correlated columns": lambda rng, size: rng.normal(size=size) + rng.normal(size=(size[0], 1)),
}


@pytest.mark.parametrize("law", INDEPENDENT.values(), ids=INDEPENDENT)
@pytest.mark.parametrize("size", [(20, 1), (60, 3), (1000, 4)])
def test_independent_rows_are_left_alone(rng, law, size):
    """At 5e-5 a data set, one alarm in 200 has probability 1%; the seed is fixed."""
    assert not any(tell_dependence("x", law(rng, size)) for _ in range(200))


@pytest.mark.slow
@pytest.mark.parametrize("law", INDEPENDENT.values(), ids=INDEPENDENT)
@pytest.mark.parametrize("n", [20, 100])
def test_false_alarms_are_rarer_than_one_in_ten_thousand(rng, law, n):
    """20,000 data sets: 2 are expected of 1e-4, and 8 have probability 1e-3."""
    assert sum(bool(tell_dependence("x", law(rng, (n, 1)))) for _ in range(20_000)) < 8


def test_two_rare_events_side_by_side_are_no_series():
    rows = np.zeros((1000, 1))
    rows[400:402] = 1.0
    assert tell_dependence("x", rows) == ()


def test_sorted_rows_tell_nothing_by_their_order(rng):
    rows = rng.normal(size=(300, 1)) + rng.normal(size=(300, 3))  # correlated columns
    order = np.argsort(rows[:, 1])
    assert tell_dependence("x", rows[order]) == ()
    assert tell_dependence("x", rows[order[::-1]]) == ()
    assert tell_dependence("x", np.sort(rng.integers(0, 5, (300, 1)) * 1.0, axis=0)) == ()


def test_constant_columns_and_few_rows_tell_nothing(rng):
    assert tell_dependence("x", np.ones((100, 2))) == ()
    assert tell_dependence("x", series(rng, 19, 1, 0.99)) == ()
    assert len(tell_dependence("x", np.hstack([np.ones((200, 1)), series(rng, 200, 1, 0.8)]))) == 1


def test_many_rows_take_no_time(rng):
    rows = rng.normal(size=(50_000, 25))
    start = time.perf_counter()
    assert tell_dependence("x", rows) == ()
    assert time.perf_counter() - start < 1.0  # a tenth of it, of a core that others share


def test_problems_tell_of_their_observations(rng):
    problem = gaussian_problem()
    assert problem.warnings == ()
    assert len(owlfi.Problem(problem.simulator, series(rng, 300, 1, 0.7)).warnings) == 1
