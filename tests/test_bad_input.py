"""What users bring: it works as they expect, or a ValueError names the argument."""

from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from functools import partial
from unittest.mock import Mock

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import scipy.stats

import owlfi
from gaussian import gaussian_problem
from owlfi import (
    Korobov,
    Normal,
    Prior,
    Simulator,
    SquaredExponential,
    Uniform,
    VStatistic,
    data_term,
    equal_weights,
    halton,
    iid,
    latin_hypercube,
    lattice,
    load,
    median_heuristic,
    optimal_weights,
    read_csv,
    simulate,
    sobol,
    squared_mmd,
    squared_worst_case_error,
    tensor_grid,
)
from owlfi._tools.checks import as_count
from owlfi.campaign import Campaign
from owlfi.inference.prior_runs import simulate_in_chunks
from owlfi.inference.proposals.proposal import the_prior
from owlfi.inference.stored_runs import _weigh
from owlfi.testing.searches import as_search
from owlfi.weights.quadrature import unweighted
from strictness import unchecked

SE = SquaredExponential(1.0)
KEY = jax.random.key(0)
X = np.random.default_rng(0).uniform(size=(6, 2)).round(3)
SQUARE = Uniform(dim=2)


@contextmanager
def refused(name):
    """By owlfi itself, whatever annotations say."""
    with unchecked(), pytest.raises(ValueError, match=rf"\b{name}\b") as error:
        yield error


def with_entry(value):
    """X with one entry replaced."""
    array = X.astype(object if value is None else float)
    array[1, 1] = value
    return array


SAMPLES = {
    "squared_mmd y": ("y", lambda value: squared_mmd(SE, value, X)),
    "squared_mmd x": ("x", lambda value: squared_mmd(SE, X, value)),
    "data_term x": ("x", lambda value: data_term(SE, value)),
    "median_heuristic data": ("data", median_heuristic),
    "optimal_weights points": ("points", lambda value: optimal_weights(SE, SQUARE, value).weights),
    "equal_weights points": (
        "points",
        lambda value: equal_weights(SE, SQUARE, value).squared_worst_case_error,
    ),
    "squared_worst_case_error points": (
        "points",
        lambda value: squared_worst_case_error(SE, SQUARE, value),
    ),
}
samples = pytest.mark.parametrize(("name", "call"), SAMPLES.values(), ids=SAMPLES)


class Hostile:
    """An object that raises where it is written, or made an array."""

    def _refuse(self, *_, **__):
        raise RuntimeError("not me")

    __repr__ = __array__ = __fspath__ = __index__ = __float__ = __iter__ = _refuse


def nest(depth):
    """A list in a list in a list."""
    found = [1.0]
    for _ in range(depth):
        found = [found]
    return found


BAD_SAMPLES = {
    "a boolean": True,
    "a sparse matrix": scipy.sparse.eye(6),
    "a structured array": np.zeros(6, [("a", float), ("b", float)]),
    "a hostile object": Hostile(),
    "a list of hostile objects": [Hostile(), Hostile()],
    "a deep list": nest(2000),
    "NaN": with_entry(np.nan),
    "infinity": with_entry(np.inf),
    "minus infinity": with_entry(-np.inf),
    "None inside": with_entry(None),
    "None": None,
    "a number": 3.0,
    "no rows": np.zeros((0, 2)),
    "no columns": np.zeros((6, 0)),
    "an empty list": [],
    "a string": "abc",
    "numbers as text": ["1", "2"],
    "strings": [["a", "b"], ["c", "d"]],
    "complex numbers": X + 1j,
    "rows of different length": [[1.0, 2.0], [3.0]],
    "a dict": {"a": 1.0},
    "a set": {1.0, 2.0},
    "a frame of text": pd.DataFrame({"a": ["x", "y"], "b": ["z", "w"]}),
    "a frame with missing values": pd.DataFrame({"a": [0.1, None], "b": [0.2, 0.3]}),
    "a masked array": np.ma.masked_array(X, mask=X > 0.5),
    "a number beyond doubles": [[10**400, 1], [2, 3]],
    "a generator": (number for number in (1.0, 2.0)),
    "a class": np.ndarray,
    "a key": KEY,
}


@samples
@pytest.mark.parametrize("value", BAD_SAMPLES.values(), ids=BAD_SAMPLES)
def test_samples_that_are_refused(name, call, value):
    with refused(name):
        call(value)


GOOD_SAMPLES = {
    "single precision": X.astype(np.float32),
    "half precision": X.astype(np.float16),
    "a jax array in single precision": jnp.asarray(X, jnp.float32),
    "integers": np.tile([[0, 1], [1, 0], [1, 1]], (2, 1)),
    "booleans": X > 0.5,
    "a list": X.tolist(),
    "a tuple": tuple(map(tuple, X.tolist())),
    "objects": X.astype(object),
    "decimals": [[Decimal(str(number)) for number in row] for row in X.tolist()],
    "a data frame": pd.DataFrame(X, columns=["a", "b"]),
    "a frame of nullable numbers": pd.DataFrame(X).convert_dtypes(),
    "columns first": np.asfortranarray(X),
    "a reversed view": X[::-1],
    "foreign bytes": X.astype(">f8"),
}


@samples
@pytest.mark.parametrize("value", GOOD_SAMPLES.values(), ids=GOOD_SAMPLES)
def test_samples_that_work_as_their_numbers_do(name, call, value):
    result = call(value)
    assert result.dtype == np.float64
    assert np.array_equal(result, call(np.asarray(value).astype(float)))


def test_a_series_is_a_column():
    series = pd.Series(X[:, 0], index=list("abcdef"))
    assert squared_mmd(SE, series, X[:, 0]) == squared_mmd(SE, X[:, :1], X[:, :1])


def test_the_index_of_a_frame_does_not_matter():
    frame = pd.DataFrame(X, index=[7, 7, 7, 1, 1, 1])
    assert median_heuristic(frame) == median_heuristic(X)


@samples
def test_samples_of_too_many_axes_are_refused(name, call):
    value = X[None]
    if name in ("y", "points"):
        assert call(value).shape[0] == 1
    else:
        with refused(name):
            call(value)


OTHER_DIMENSIONS = {
    "squared_mmd y": ("y", lambda: squared_mmd(SE, X[:, :1], X)),
    "squared_mmd x": ("x", lambda: squared_mmd(SE, X, X[:, 0])),
    "optimal_weights": ("points", lambda: optimal_weights(SE, Uniform(dim=3), X)),
    "equal_weights": ("points", lambda: equal_weights(SE, Uniform(), X)),
    "squared_worst_case_error": ("points", lambda: squared_worst_case_error(SE, Uniform(), X)),
    "kernel k": ("lengthscale", lambda: squared_mmd(SquaredExponential([1.0, 2.0, 3.0]), X, X)),
    "kernel c": (
        "lengthscale",
        lambda: optimal_weights(SquaredExponential([1.0, 2.0, 3.0]), SQUARE, X),
    ),
    "period": ("period", lambda: optimal_weights(Korobov(period=[1.0, 2.0, 3.0]), SQUARE, X)),
}


@pytest.mark.parametrize(("name", "call"), OTHER_DIMENSIONS.values(), ids=OTHER_DIMENSIONS)
def test_dimensions_that_do_not_fit_are_refused(name, call):
    with refused(name):
        call()


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("components", lambda: owlfi.Mixture(np.array(3.0), [1.0])),
        ("points", lambda: owlfi.OptimallyWeighted(16, points=owlfi.SquaredExponential)),
        ("steps", lambda: owlfi.brownian(10**7)),
        ("dim", lambda: owlfi.brownian(10**4, dim=10**4)),
        ("measure", lambda: iid(KEY, 4, Mock())),
        ("each part", lambda: owlfi.Product(Normal(), 3.0)),
        ("each of components", lambda: owlfi.Mixture(["abc"], [1.0])),
        ("the prior of a", lambda: Prior(a="Normal(0, 1)")),
        ("weights", lambda: owlfi.MultivariateNormal.of_draws(X, "equal")),
        ("weights", lambda: owlfi.MultivariateNormal.of_draws(X, np.zeros(6))),
        ("covariance", lambda: owlfi.MultivariateNormal([0.0, 0.0], np.ones((3, 3)))),
        ("low", lambda: owlfi.TruncatedNormal(low=KEY)),
        ("function", lambda: owlfi.LogDensity(3.0, [0.0], [1.0])),
        ("function", lambda: owlfi.LogDensity(lambda u: "high", [0.0], [1.0])),
        ("scale", lambda: owlfi.whitening_kernel(X, scale=None)),
        ("covariance", lambda: owlfi.whitening_kernel(X, covariance=np.eye(3))),
        ("covariance", lambda: owlfi.whitening_kernel(X, covariance=[[1.0, 2.0], [0.0, 1.0]])),
        ("factor", lambda: SE.stretch(-1.0)),
        ("factor", lambda: (SE + 1.0).stretch([1.0, 2.0])),
        ("x", lambda: SE.gram(X + 1j, X)),
        ("y", lambda: SE.gram(X, with_entry(np.nan))),
        ("a", lambda: SE("here", [0.0, 0.0])),
        ("tent", lambda: lattice(KEY, 4, SQUARE, tent="no")),
        ("key", lambda: owlfi.support_points(3, 4, SQUARE)),
        ("most_noise", lambda: owlfi.tuned_weights(SE, SQUARE, X, X, most_noise="4")),
    ],
)
def test_what_is_made_of_the_wrong_things_is_refused(name, call):
    with refused(name):
        call()


PROBLEM = gaussian_problem(n=9)
MODEL = PROBLEM.simulator
RUNS = simulate(MODEL, [0.5, 1.0], unweighted(jnp.linspace(-1.0, 1.0, 4)[:, None]))
DESIGNS = optimal_weights(SE, Normal(), jnp.linspace(-1.0, 1.0, 12).reshape(3, 4, 1))
OF_PROBLEMS = {
    "flags of simulate": ("check", lambda: simulate(MODEL, [1.0], RUNS.quadrature, check="no")),
    "columns": ("columns", lambda: simulate(MODEL, [1.0], RUNS.quadrature, columns="one")),
    "places": ("chosen", lambda: RUNS.at("first")),
    "one place": ("chosen", lambda: RUNS.at(0)),
    "points in words": ("points", lambda: replace(RUNS.quadrature, points="sobol")),
    "weights of others": ("weights", lambda: replace(RUNS.quadrature, weights=jnp.ones(3))),
    "designs": ("thetas", lambda: DESIGNS.at(["first"])),
    "designs that are not there": ("thetas", lambda: DESIGNS.at([7])),
    "runs without a quadrature": ("quadrature", lambda: replace(RUNS, quadrature="sobol")),
    "calls of runs": ("calls", lambda: replace(RUNS, calls=None)),
    "a measure of an embedding": ("measure", lambda: owlfi.Embedding(SE, SE)),
    "a rotation": ("rotation", lambda: replace(owlfi.brownian(3), rotation=np.eye(3))),
    "draws of a proposal": ("n", lambda: the_prior(1).draw(KEY, "ten")),
    "boxes of a proposal": ("high", lambda: replace(the_prior(1), high=3.0)),
    "columns of a kernel": ("kernel", lambda: owlfi.whitening_kernel(X).gram(X[:, 0], X[:, 0])),
    "unbiased": ("unbiased", lambda: PROBLEM.data_term("no")),
    "a descent": ("steps", lambda: owlfi.Adam(steps=0.5)),
    "level of a check": ("level", lambda: owlfi.check(KEY, PROBLEM, POSTERIOR, level=1.5)),
    "other runs": ("more", lambda: RUNS.join(None)),
    "runs of another shape": ("more", lambda: RUNS.join(replace(RUNS, y=RUNS.y[:, :2]))),
    "no quadrature": ("quadrature", lambda: PROBLEM.squared_mmd(RUNS.y, [0.5, 0.5])),
    "prior of dry runs": (
        "prior",
        lambda: Simulator.from_random(lambda theta, rng: rng.normal(), ["a"], prior=[0, 1]),
    ),
    "argument of dry runs": (
        "argument",
        lambda: Simulator.from_random(lambda t, rng: rng.normal(), ["a"], theta=[1], argument=1),
    ),
    "number of draws": ("n", lambda: PROBLEM.prior.sample(KEY, "ten")),
    "names of a prior": ("names", lambda: PROBLEM.prior.of(3)),
    "theta of a pilot": ("theta", lambda: owlfi.recommend(MODEL, 16, theta="far")),
    "own points": ("points", lambda: VStatistic(4, lambda *_: "abc").quadrature(KEY, PROBLEM)),
    "few points": ("points", lambda: VStatistic(4, lambda *_: [0.5]).quadrature(KEY, PROBLEM)),
    "own summaries": (
        "summaries",
        lambda: owlfi.Problem(MODEL, [0.0, 1.0], summaries=lambda rows: {"mean": 1.0}),
    ),
    "observed": ("observed", lambda: owlfi.learn_coordinates(KEY, MODEL, SE, [1.0], observed="x")),
    "bar": ("progress", lambda: owlfi.Problem(MODEL, [0.0, 1.0], data_kernel=SE, progress="yes")),
    "kernel of failures": ("base_kernel", lambda: owlfi.accept(PROBLEM, RUNS, base_kernel="se")),
    "own statistics": (
        "statistics",
        lambda: owlfi.check(KEY, PROBLEM, POSTERIOR, statistics={"a": lambda data: {}}),
    ),
    "a file of data sets": (
        "file",
        lambda: owlfi.calibrate(KEY, PROBLEM, owlfi.rejection_abc, VStatistic(4), file="/"),
    ),
    "few replicates": ("replicates", lambda: owlfi.check(KEY, PROBLEM, POSTERIOR, replicates="a")),
    "several kernels": ("aggregate", lambda: owlfi.two_sample(KEY, X, X + 1, aggregate="all")),
    "exchange rates": ("n", lambda: owlfi.models.exchange_rates("all")),
}
POSTERIOR = owlfi.Posterior(PROBLEM.prior.names, np.linspace(0, 1, 6)[:, None], np.full(6, 1 / 6))
ESTIMATE = owlfi.Estimate(("a",), jnp.ones(1), jnp.eye(1), jnp.array(0.1))
OF_RESULTS = {
    "names": ("names", lambda: replace(POSTERIOR, names=3)),
    "draws": ("draws", lambda: replace(POSTERIOR, draws="abc")),
    "weights": ("weights", lambda: replace(POSTERIOR, weights=np.ones(5))),
    "chains": ("chains", lambda: replace(POSTERIOR, chains=1.5)),
    "calls": ("calls", lambda: replace(POSTERIOR, calls="many")),
    "about": ("about", lambda: replace(POSTERIOR, about="ABC")),
    "one warning": ("warnings", lambda: replace(POSTERIOR, warnings="few draws")),
    "names twice": ("names", lambda: owlfi.Posterior(["a", "a"], X, np.full(6, 1 / 6))),
    "statistic": ("statistic", lambda: owlfi.HypothesisTest(None, 0.1, 0.2, 0.05, np.ones(9))),
    "p-value": ("p_value", lambda: owlfi.HypothesisTest(0.1, 1e9, 0.2, 0.05, np.ones(9))),
    "converged": ("converged", lambda: replace(ESTIMATE, converged="yes")),
    "gradients": ("gradient_calls", lambda: replace(ESTIMATE, gradient_calls=-1)),
    "key of ArviZ": ("key", lambda: POSTERIOR.to_arviz("seed")),
    "level": ("level", lambda: POSTERIOR.quantile(2.0)),
    "theta": ("theta", lambda: POSTERIOR.level_of([1.0, 2.0])),
    "theta in words": ("theta", lambda: POSTERIOR.scores_of("mean")),
    "number of draws": ("n", lambda: POSTERIOR.resample(KEY, 2.5)),
    "simulator": ("simulator", lambda: POSTERIOR.predictive(KEY, PROBLEM, 2, 3)),
    "rows": ("rows", lambda: POSTERIOR.predictive(KEY, MODEL, 2, "ten")),
    "path": ("path", lambda: POSTERIOR.save(None)),
    "posterior": ("posterior", lambda: owlfi.plots.marginals(PROBLEM)),
    "truth": ("truth", lambda: owlfi.plots.pairs(POSTERIOR, truth=3.0)),
    "axes": ("axes", lambda: owlfi.plots.trace(POSTERIOR, ["here"])),
    "samples": ("samples", lambda: owlfi.plots.predictive(PROBLEM, X)),
    "quadrature": ("quadrature", lambda: owlfi.plots.weights(X)),
    "test": ("test", lambda: owlfi.plots.null_histogram(POSTERIOR)),
    "calibration": ("calibration", lambda: owlfi.plots.coverage(POSTERIOR)),
    "found": ("found", lambda: owlfi.plots.check(POSTERIOR)),
    "estimate": ("estimate", lambda: owlfi.plots.observations(POSTERIOR)),
    "size": ("size", lambda: owlfi.plots.new_axes(size="large")),
    "title": ("title", lambda: owlfi.report(POSTERIOR, title=3)),
    "rule": ("rule", lambda: owlfi.report(POSTERIOR, rule="sobol")),
    "design": ("quadrature", lambda: owlfi.report(POSTERIOR, quadrature=X)),
}


@pytest.mark.parametrize(("name", "call"), OF_PROBLEMS.values(), ids=OF_PROBLEMS)
def test_what_problems_cannot_use_is_refused(name, call):
    with refused(name):
        call()


@pytest.mark.parametrize(("name", "call"), OF_RESULTS.values(), ids=OF_RESULTS)
def test_what_results_cannot_use_is_refused(name, call):
    with refused(name):
        call()


def test_designs_of_some_thetas_may_be_a_list():
    assert np.array_equal(DESIGNS.at([0, 2]).points, np.asarray(DESIGNS.points)[[0, 2]])


def test_lists_are_the_arrays_of_results():
    with unchecked():
        given = owlfi.Posterior(["a"], [[1], [3]], [0.5, 0.5])
    assert given.names == ("a",)
    assert given.mean == 2.0


def test_whole_numbers_of_draws_may_be_written_as_floats():
    assert len(owlfi.rejection_abc(KEY, PROBLEM, VStatistic(4), draws=8.0, share=0.5).draws) == 4


@pytest.mark.parametrize("function", [optimal_weights, equal_weights, squared_worst_case_error])
@pytest.mark.parametrize("value", [1.5, -1e-9])
def test_points_outside_the_support_are_refused(function, value):
    with refused("points") as error:
        function(SE, SQUARE, with_entry(value))
    assert str(value) in str(error.value)
    assert "row 1, coordinate 1" in str(error.value)


def test_points_on_the_edge_of_the_support_are_inside():
    assert np.isfinite(optimal_weights(SE, SQUARE, np.tile([[0.0, 1.0]], (6, 1))).weights).all()


def test_too_many_points_for_a_matrix_are_refused():
    with refused("points"):
        optimal_weights(SE, Uniform(), np.linspace(0, 1, 30_001))


WEIGHTS = {
    "squared_mmd weights": ("weights", lambda value: squared_mmd(SE, X, X, value)),
    "squared_mmd weights_x": ("weights_x", lambda value: squared_mmd(SE, X, X, weights_x=value)),
    "data_term weights": ("weights", lambda value: data_term(SE, X, value)),
    "squared_worst_case_error weights": (
        "weights",
        lambda value: squared_worst_case_error(SE, SQUARE, X, value),
    ),
}
weights = pytest.mark.parametrize(("name", "call"), WEIGHTS.values(), ids=WEIGHTS)

BAD_WEIGHTS = {
    "too few": np.ones(5),
    "too many": np.ones(7),
    "a number": 1.0,
    "a column": np.ones((6, 1)),
    "a row": np.ones((1, 6)),
    "none": [],
    "NaN": [1.0, 1.0, 1.0, 1.0, 1.0, np.nan],
    "a string": "equal",
    "complex": np.ones(6) * 1j,
}


@weights
@pytest.mark.parametrize("value", BAD_WEIGHTS.values(), ids=BAD_WEIGHTS)
def test_weights_that_are_refused(name, call, value):
    with refused(name):
        call(value)


@weights
@pytest.mark.parametrize("convert", [list, pd.Series, lambda w: w.astype(np.float32)])
def test_weights_that_work_as_their_numbers_do(name, call, convert):
    w = np.array([1.0, -2.0, 0.5, 0.0, 3.0, 1.0])
    assert call(convert(w)) == call(w)


def test_weights_of_another_batch_are_refused():
    with refused("weights"):
        squared_mmd(SE, np.stack([X, X]), X, np.ones((3, 6)))


UNBIASED = {
    "weights": lambda: squared_mmd(SE, X, X, np.ones(6), unbiased=True),
    "weights_x": lambda: squared_mmd(SE, X, X, unbiased=True, weights_x=np.ones(6)),
    "data_term": lambda: data_term(SE, X, np.arange(6.0), unbiased=True),
}


@pytest.mark.parametrize("call", UNBIASED.values(), ids=UNBIASED)
def test_the_u_statistic_refuses_weights(call):
    with refused("weights"):
        call()


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("y", lambda: squared_mmd(SE, X[:1], X, unbiased=True)),
        ("x", lambda: squared_mmd(SE, X, X[:1], unbiased=True)),
        ("x", lambda: data_term(SE, X[:1], unbiased=True)),
    ],
)
def test_the_u_statistic_needs_two_rows(name, call):
    with refused(name):
        call()


@pytest.mark.parametrize("value", ["no", None, 1, np.ones(6) / 6, jnp.array(True)], ids=str)
def test_unbiased_is_a_truth_value(value):
    for call in (partial(squared_mmd, SE, X, X), partial(data_term, SE, X)):
        with refused("unbiased"):
            call(unbiased=value)


def test_a_quadrature_is_no_array_of_weights():
    with pytest.raises(ValueError, match=r"weights_x must be an array, got a Quadrature"):
        squared_mmd(SE, X, X, weights_x=equal_weights(SE, SQUARE, X))


def test_samples_of_other_columns_are_refused_in_these_words():
    with pytest.raises(ValueError, match="the same number of columns"):
        squared_mmd(SE, X, X[:, 0])


def test_a_truth_value_of_numpy_chooses_the_u_statistic():
    assert squared_mmd(SE, X, X, unbiased=np.bool_(True)) == squared_mmd(SE, X, X, unbiased=True)


@pytest.mark.parametrize("value", [np.nan, "a", np.ones(3), [1.0, 2.0], 1j])
def test_data_terms_that_are_refused(value):
    with refused("data_term"):
        squared_mmd(SE, X, X, data_term=value)


BAD_NUGGETS = [-1e-9, np.nan, np.inf, "small", None, [1e-8, 1e-8], 1j]


@pytest.mark.parametrize("value", BAD_NUGGETS)
def test_nuggets_that_are_refused(value):
    with refused("nugget"):
        optimal_weights(SE, SQUARE, X, nugget=value)


@pytest.mark.parametrize("value", [1, np.float32(0.5), np.array(0.5), jnp.array(0.5)])
def test_nuggets_that_work(value):
    assert optimal_weights(SE, SQUARE, X, nugget=value).nugget == float(value)


POINT_SETS = [iid, sobol, halton, latin_hypercube, lattice]
BAD_COUNTS = [0, -1, 2.5, True, "4", None, np.nan, np.inf, (4,), np.array([4, 5])]


@pytest.mark.parametrize("point_set", POINT_SETS)
@pytest.mark.parametrize("m", BAD_COUNTS, ids=str)
def test_numbers_of_points_that_are_refused(point_set, m):
    with refused("m"):
        point_set(KEY, m, Uniform())


@pytest.mark.parametrize("nodes", BAD_COUNTS, ids=str)
def test_numbers_of_nodes_that_are_refused(nodes):
    with refused("nodes"):
        tensor_grid(nodes, Uniform())


@pytest.mark.parametrize("point_set", POINT_SETS)
@pytest.mark.parametrize("m", [4.0, np.int64(4), np.array(4), jnp.array(4)])
def test_whole_numbers_of_any_type_work(point_set, m):
    assert point_set(KEY, m, Uniform()).shape == (4, 1)


BAD_KEYS = {
    "an integer": 0,
    "None": None,
    "a NumPy generator": np.random.default_rng(0),
    "a string": "seed",
    "several keys": jax.random.split(KEY),
    "a number of jax": jnp.array(3),
    "numbers of jax": jnp.array([0.5, 1.5]),
    "the function": jax.random.key,
}


@pytest.mark.parametrize("point_set", POINT_SETS)
@pytest.mark.parametrize("key", BAD_KEYS.values(), ids=BAD_KEYS)
def test_keys_that_are_refused(point_set, key):
    with refused("key"):
        point_set(key, 4, Uniform())


@pytest.mark.parametrize("point_set", POINT_SETS)
@pytest.mark.parametrize(
    "make", [jax.random.PRNGKey, lambda seed: jax.random.key(seed, impl="rbg")]
)
def test_keys_of_other_kinds_work(point_set, make):
    assert point_set(make(0), 4, Uniform()).shape == (4, 1)


KERNEL_USERS = {
    "squared_mmd": lambda kernel: squared_mmd(kernel, X, X),
    "data_term": lambda kernel: data_term(kernel, X),
    "optimal_weights": lambda kernel: optimal_weights(kernel, SQUARE, X),
    "equal_weights": lambda kernel: equal_weights(kernel, SQUARE, X),
    "squared_worst_case_error": lambda kernel: squared_worst_case_error(kernel, SQUARE, X),
}
BAD_KERNELS = {
    "a number": 1.0,
    "None": None,
    "a string": "gaussian",
    "a class": SquaredExponential,
    "a measure": Normal(),
    "a matrix": np.eye(6),
}


@pytest.mark.parametrize("call", KERNEL_USERS.values(), ids=KERNEL_USERS)
@pytest.mark.parametrize("kernel", BAD_KERNELS.values(), ids=BAD_KERNELS)
def test_kernels_that_are_refused(call, kernel):
    with refused("kernel"):
        call(kernel)


@pytest.mark.parametrize("user", ["optimal_weights", "equal_weights", "squared_worst_case_error"])
def test_own_functions_are_refused_as_base_kernels(user):
    with refused("kernel"):
        KERNEL_USERS[user](lambda a, b: a @ b)


@pytest.mark.parametrize("user", ["squared_mmd", "data_term"])
def test_own_functions_must_give_one_finite_number(user):
    with refused("kernel"):
        KERNEL_USERS[user](lambda a, b: jnp.exp(-((a - b) ** 2)))
    with refused("data_kernel"):
        KERNEL_USERS[user](lambda a, b: jnp.nan)


NO_JAX_FUNCTIONS = {
    "numpy": lambda a, b: np.exp(-np.sum((a - b) ** 2)),
    "one argument": lambda a: a @ a,
    "nothing": lambda a, b: None,
    "text": lambda a, b: "near",
    "a plain number of a point": lambda a, b: float(a[0]),
}


@pytest.mark.parametrize("function", NO_JAX_FUNCTIONS.values(), ids=NO_JAX_FUNCTIONS)
def test_own_functions_must_be_functions_of_jax(function):
    with pytest.raises(ValueError, match=r"kernel must be a JAX function of two points \(d,\)"):
        squared_mmd(function, X, X)


def test_grids_that_do_not_fit_in_memory_are_refused():
    with pytest.raises(ValueError, match=r"nodes = 100 .* 100\^10 points.*fewer nodes"):
        tensor_grid(100, Normal(dim=10))


MEASURE_USERS = {
    **{f.__name__: (lambda measure, f=f: f(KEY, 4, measure)) for f in POINT_SETS},
    "tensor_grid": lambda measure: tensor_grid(2, measure),
    "optimal_weights": lambda measure: optimal_weights(SE, measure, [0.2, 0.4]),
    "equal_weights": lambda measure: equal_weights(SE, measure, [0.2, 0.4]),
    "squared_worst_case_error": lambda measure: squared_worst_case_error(SE, measure, [0.2, 0.4]),
}
BAD_MEASURES = {
    "an unfrozen distribution": scipy.stats.norm,
    "an unfrozen discrete distribution": scipy.stats.poisson,
    "a multivariate distribution": scipy.stats.multivariate_normal([0.0, 0.0]),
    "a multivariate t distribution": scipy.stats.multivariate_t([0.0, 0.0]),
    "a frozen distribution of arrays": scipy.stats.gumbel_r([0.0, 1.0]),
    "a density estimate": scipy.stats.gaussian_kde(X[:, 0]),
    "a class": Uniform,
    "a kernel": SE,
    "a number": 1.0,
    "None": None,
    "a string": "uniform",
}


@pytest.mark.parametrize("call", MEASURE_USERS.values(), ids=MEASURE_USERS)
@pytest.mark.parametrize("measure", BAD_MEASURES.values(), ids=BAD_MEASURES)
def test_measures_that_are_refused(call, measure):
    with refused("measure"):
        call(measure)


# Words, paths and names

OBJECTS = {
    "a sparse matrix": scipy.sparse.eye(3),
    "a structured array": np.zeros(3, [("a", float)]),
    "an array": np.ones(3),
    "a hostile object": Hostile(),
    "a deep list": nest(2000),
}


@pytest.mark.parametrize("value", OBJECTS.values(), ids=OBJECTS)
def test_objects_where_words_or_paths_are_expected_are_refused(value):
    with refused("search"):
        as_search(value, None, 1)
    with refused("base_kernel"):
        _weigh(
            gaussian_problem(), jnp.zeros((1, 1)), jnp.zeros((2, 1)), jnp.zeros((1, 2, 1)), value
        )
    with refused("path"):
        load(value)
    with refused("path"):
        Campaign.open(value)
    with refused("m"):
        as_count("m", value)


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b"], ids=["long", "a zero"])
@pytest.mark.parametrize("read", [load, Campaign.open, read_csv])
def test_names_that_no_file_can_have_are_refused(read, name):
    with refused("path"):
        read(name)


@pytest.mark.parametrize("names", [["a", ""], [" "]])
def test_parameters_without_a_name_are_refused(names):
    with refused("parameters"):
        Simulator(lambda theta, u: u, Normal(), names)
    with refused("parameters"):
        Prior(**dict.fromkeys(names, Normal()))


def test_simulations_beyond_memory_are_refused_before_any_is_made():
    problem = gaussian_problem()
    thetas = np.ones((10**6, len(problem.prior.names)))
    points = unweighted(jnp.zeros((10**6, problem.simulator.measure.dim)))
    with pytest.raises(ValueError, match=r"1,000,000 thetas at 1,000,000 points ask for .* GB"):
        simulate(problem.simulator, thetas, points)
    with pytest.raises(ValueError, match=r"1,000,000 draws at 1,000,000 points .* GB"):
        simulate_in_chunks(problem, jnp.asarray(thetas), points)
