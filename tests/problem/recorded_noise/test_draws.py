"""Draws from a tape: NumPy's laws, shapes, types and errors."""

import copy
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from owlfi.problem.recorded_noise.errors import NotFromNoiseError
from owlfi.problem.recorded_noise.generator import RecordingGenerator, RecordingState
from owlfi.problem.recorded_noise.kinds import BELOW_ONE
from owlfi.problem.recorded_noise.tape import Tape

ROWS = 3000
SMALLEST_P = 1e-4  # some 120 tests, of which none should be so unlikely
FAMILIES = {
    "beta": [(2.0, 0.7), (0.3, 0.4)],
    "binomial": [(20, 0.3), (1000, 0.97), (5, 0.0), (5, 1.0), (0, 0.5)],
    "chisquare": [(3.0,)],
    "exponential": [(2.0,), ()],
    "f": [(5.0, 7.0)],
    "gamma": [(2.5, 2.0), (0.2, 1.0), (300.0, 0.1)],
    "geometric": [(0.3,), (1.0,), (0.001,)],
    "gumbel": [(1.0, 2.0)],
    "hypergeometric": [(15, 25, 12), (3, 0, 2), (0, 4, 2)],
    "integers": [(3, 17), (2**40,), (-(2**63), 2**63 - 1)],
    "laplace": [(1.0, 2.0)],
    "logistic": [(1.0, 2.0)],
    "lognormal": [(0.3, 0.5)],
    "logseries": [(0.7,), (0.99,)],
    "negative_binomial": [(3.5, 0.4), (0.1, 0.05)],
    "noncentral_chisquare": [(3.0, 2.0), (0.5, 1.0)],
    "noncentral_f": [(5.0, 7.0, 1.0)],
    "normal": [(1.0, 2.0), (0, 1)],
    "pareto": [(3.0,)],
    "poisson": [(4.5,), (0.0,), (1e-3,), (1e6,)],
    "power": [(2.5,)],
    "random": [()],
    "rayleigh": [(2.0,)],
    "standard_cauchy": [()],
    "standard_exponential": [()],
    "standard_gamma": [(0.4,)],
    "standard_normal": [()],
    "standard_t": [(3.0,), (0.5,)],
    "triangular": [(0.0, 1.0, 3.0), (0.0, 0.0, 1.0)],
    "uniform": [(-1.0, 2.0)],
    "vonmises": [(1.0, 2.0), (0.0, 0.0), (3.0, 100.0)],
    "wald": [(2.0, 3.0)],
    "weibull": [(1.5,)],
    "zipf": [(2.5,), (1.3,)],
}
VECTORS = {
    "dirichlet": [([2.0, 0.5, 1.0],), ([0.01, 0.02, 0.05],)],
    "multinomial": [(20, [0.2, 0.5, 0.3]), (5, [0.0, 1.0])],
    "multivariate_hypergeometric": [([5, 8, 3], 6)],
    "multivariate_normal": [([1.0, -1.0], [[2.0, 0.6], [0.6, 1.0]]), ([0.0, 0.0], np.ones((2, 2)))],
}
CASES = [(name, p) for name, each in {**FAMILIES, **VECTORS}.items() for p in each]


def tape(seed=0.5):
    """Nothing but the stream of a seed."""
    return Tape(np.array([seed]), ())


def generator(seed=0.5):
    return RecordingGenerator(tape(seed))


def compare(found, expected):
    """The p-value of equal laws of two columns, those of counts by their frequencies."""
    if np.unique(np.concatenate([found, expected])).size > 200:
        return stats.ks_2samp(found, expected).pvalue
    edges = np.unique(np.quantile(np.concatenate([found, expected]), np.linspace(0, 1, 15)))
    table = np.stack([np.histogram(x, [*edges, np.inf])[0] for x in (found, expected)])
    table = table[:, table.sum(0) > 0]
    return 1.0 if table.shape[1] == 1 else stats.chi2_contingency(table).pvalue


@pytest.mark.parametrize(("name", "parameters"), CASES)
def test_draws_have_the_law_of_numpys(name, parameters):
    plain = np.random.default_rng(1)
    found = getattr(generator(), name)(*parameters, size=ROWS)
    expected = getattr(plain, name)(*parameters, size=ROWS)
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    assert type(getattr(generator(), name)(*parameters)) is type(getattr(plain, name)(*parameters))
    columns = zip(found.reshape(ROWS, -1).T, expected.reshape(ROWS, -1).T, strict=True)
    assert min(compare(*pair) for pair in columns) > SMALLEST_P


@pytest.mark.parametrize(("name", "parameters"), [(n, each[0]) for n, each in FAMILIES.items()])
def test_one_draw_is_the_first_of_many_and_parameters_are_broadcast(name, parameters):
    one = getattr(generator(), name)(*parameters)
    many = getattr(generator(), name)(*parameters, size=(1,))
    assert_allclose(one, many[0], rtol=1e-13)
    arrays = [np.array([p, p]) for p in parameters]
    if arrays:
        assert getattr(generator(), name)(*arrays).shape == (2,)
        assert getattr(generator(), name)(arrays[0], *parameters[1:], size=(3, 2)).shape == (3, 2)
        with pytest.raises(ValueError, match=r"broadcast|fit"):
            getattr(generator(), name)(arrays[0], *parameters[1:], size=(3, 3))


WRONG = [
    ("normal", (0.0, -1.0)),
    ("normal", (0, -1)),
    ("exponential", (-1.0,)),
    ("uniform", (0.0, np.inf)),
    ("binomial", (10, 1.2)),
    ("binomial", (10, np.array([0.5, 1.2]))),
    ("poisson", (-1.0,)),
    ("gamma", (-1.0,)),
    ("integers", (5, 5)),
    ("choice", ([],)),
    ("multinomial", (5, [0.9, 0.9, 0.9])),
    ("dirichlet", ([-1.0, 1.0],)),
]


@pytest.mark.parametrize(("name", "parameters"), WRONG)
def test_wrong_parameters_raise_as_in_numpy(name, parameters):
    with pytest.raises((ValueError, OverflowError)) as expected:
        getattr(np.random.default_rng(0), name)(*parameters)
    with pytest.raises(expected.type):
        getattr(generator(), name)(*parameters)


# Coordinates


def test_draws_are_the_coordinates_in_their_order():
    u = np.array([0.5, -1.0, 2.0, 0.25])
    blocks = (("normal", 2), ("exponential", 1), ("uniform", 1))
    rng = RecordingGenerator(Tape(u, blocks))
    assert_allclose(rng.normal(10.0, 2.0, size=2), [11.0, 8.0])
    assert rng.exponential(3.0) == 6.0
    assert rng.uniform(0.0, 4.0) == 1.0


def test_a_draw_of_another_kind_has_the_level_of_its_coordinate():
    rng = RecordingGenerator(
        Tape(np.array([0.0, np.log(2), 0.5]), (("normal", 1), ("exponential", 1), ("uniform", 1)))
    )
    assert_allclose(rng.exponential(size=1), np.log(2))
    assert_allclose(rng.normal(size=2), 0.0, atol=1e-15)


def test_arrays_that_are_handed_out_may_be_changed():
    u = np.array([1.0, 2.0])
    drawn = RecordingGenerator(Tape(u, (("normal", 2),))).standard_normal(2)
    drawn *= 0
    assert_allclose(u, [1.0, 2.0])


def test_draws_beyond_u_come_from_a_stream_that_u_fixes():
    def draw(u):
        mine = Tape(np.array([u]), (("normal", 1),))
        return RecordingGenerator(mine).normal(size=3), mine.beyond

    (first, beyond), (again, _), (other, _) = draw(0.5), draw(0.5), draw(0.6)
    assert beyond == 2
    assert first.tobytes() == again.tobytes()
    assert first[0] == 0.5
    assert (first != other).all()


def test_draws_one_by_one_are_those_of_an_array():
    blocks = (("uniform", 2), ("normal", 1), ("laplace", 1))
    for kind in ("normal", "exponential", "random", "laplace"):
        one, many = (RecordingGenerator(Tape(np.full(4, 0.3), blocks)) for _ in range(2))
        drawn = np.array([getattr(one, kind)() for _ in range(6)])
        assert_allclose(drawn, getattr(many, kind)(size=6), rtol=1e-14)


def test_ends_of_the_coordinates_give_finite_draws():
    for level in (0.0, 1.0, 2.0**-60, BELOW_ONE):
        u, blocks = np.full(4, level), (("uniform", 4),)
        assert RecordingGenerator(Tape(u, blocks)).random() < 1
        assert 0 <= RecordingGenerator(Tape(u, blocks)).poisson(3.0) < 100
        assert RecordingGenerator(Tape(u, blocks)).integers(7) < 7
        assert np.isfinite(RecordingGenerator(Tape(u, blocks)).normal(size=4)).all()


def test_far_tails_keep_their_digits():
    z = np.array([-8.0, 8.0])
    found = RecordingGenerator(Tape(z, (("normal", 2),))).gamma(2.5, size=2)
    expected = stats.gamma.ppf(stats.norm.cdf(-8), 2.5), stats.gamma.isf(stats.norm.sf(8), 2.5)
    assert_allclose(found, expected, rtol=1e-10)


# Orders


def test_permutations_and_choices_are_uniform():
    rng, counts = generator(), np.zeros((3, 3))
    for _ in range(1500):
        counts[rng.permutation(3), [0, 1, 2]] += 1
    assert stats.chisquare(counts.ravel()).pvalue > SMALLEST_P
    pairs = [tuple(rng.choice(["a", "b", "c"], size=2, replace=False)) for _ in range(1800)]
    assert stats.chisquare(pd.Series(pairs).value_counts()).pvalue > SMALLEST_P
    assert len(set(pairs)) == 6


def test_choices_with_probabilities():
    rng, p = generator(), [0.5, 0.3, 0.2, 0.0]
    found = np.bincount(rng.choice(4, size=2000, p=p), minlength=4)
    assert found[3] == 0
    assert stats.chisquare(found[:3], 2000 * np.array(p[:3])).pvalue > SMALLEST_P
    firsts = np.array([rng.choice(4, size=2, replace=False, p=p) for _ in range(2000)])
    found = np.bincount(firsts[:, 0], minlength=4)
    assert stats.chisquare(found[:3], 2000 * np.array(p[:3])).pvalue > SMALLEST_P
    assert (firsts[:, 0] != firsts[:, 1]).all()


def test_everything_that_is_shuffled_is_there():
    rng, x = generator(), np.arange(12).reshape(4, 3)
    assert sorted(rng.permutation(x).ravel()) == list(range(12))
    assert (np.sort(rng.permuted(x, axis=1), 1) == x).all()
    assert sorted(rng.permuted(x).ravel()) == list(range(12))
    out = np.empty_like(x)
    assert rng.permuted(x, axis=0, out=out) is out
    mixed = x.copy()
    rng.shuffle(mixed, axis=1)
    assert (np.sort(mixed, 1) == x).all()
    cards = list("abcdef")
    rng.shuffle(cards)
    assert sorted(cards) == list("abcdef")
    assert rng.choice(x, 2, axis=1).shape == (4, 2)
    assert len(rng.bytes(10)) == 10


# NumPy's classes


def test_it_is_a_generator_for_numpy_scipy_and_pandas():
    rng = generator()
    assert isinstance(rng, np.random.Generator)
    assert np.random.default_rng(rng) is rng
    assert stats.norm.rvs(size=3, random_state=rng).shape == (3,)
    assert stats.multivariate_normal.rvs([0, 0], size=2, random_state=rng).shape == (2, 2)
    assert len(pd.DataFrame({"a": range(5)}).sample(3, random_state=rng)) == 3


def test_precision_and_arrays_that_are_there():
    rng = generator()
    assert rng.random(4, dtype=np.float32).dtype == np.float32
    out = np.empty(3)
    assert rng.standard_normal(out=out) is out
    with pytest.raises(ValueError, match="must match out"):
        rng.standard_exponential(2, out=out)


def test_every_method_of_numpy_is_ours_or_refused_by_name():
    for own, numpys in (
        (RecordingGenerator, np.random.Generator),
        (RecordingState, np.random.RandomState),
    ):
        names = [name for name in dir(numpys) if not name.startswith("_")]
        assert all(getattr(own, name) is not getattr(numpys, name) for name in names)
    for refused in (
        lambda: generator().bit_generator.state,
        lambda: RecordingState(tape()).get_state(),
    ):
        with pytest.raises(
            NotFromNoiseError, match=r"rng\.(bit_generator.state|get_state) cannot be taken"
        ):
            refused()
    with pytest.raises(NotFromNoiseError, match="copies and pickles"):
        copy.deepcopy(generator())


def test_the_old_interface():
    state = RecordingState(tape())
    assert isinstance(state, np.random.RandomState)
    assert state.randn(2, 3).shape == (2, 3)
    assert 0 <= state.rand() < 1
    assert state.randint(3, 5) in (3, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        assert state.random_integers(2, 3) in (2, 3)
    assert state.random_sample((2,)).shape == (2,)
    assert state.tomaxint() >= 0


def test_children_draw_from_the_same_tape():
    u = np.array([1.0, 2.0])
    first, second = RecordingGenerator(Tape(u, (("normal", 2),))).spawn(2)
    assert (second.normal(), first.normal()) == (1.0, 2.0)


# Rows side by side


def test_rows_take_their_own_coordinates():
    u = np.arange(6.0).reshape(3, 2)
    rows = Tape(u, (("normal", 2),))
    rng = RecordingGenerator(rows)
    assert_allclose(rng.normal(np.zeros(3), 1.0), u[:, 0])
    beyond = rng.normal(size=(3, 2))
    assert_allclose(beyond[:, 0], u[:, 1])
    one = RecordingGenerator(Tape(u[1], (("normal", 2),)))
    assert one.normal(size=3)[2] == beyond[1, 1]
    with pytest.raises(ValueError, match="the 3 rows as its leading axis"):
        rng.normal()
    with pytest.raises(ValueError, match="cannot be taken from u"):
        rng.permutation(3)
