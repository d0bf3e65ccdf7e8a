"""Point sets: where they lie, how evenly, and that a key decides them."""

from functools import cache, partial

import jax
import numpy as np
import pytest
import scipy.stats

from owlfi.measures import (
    Beta,
    Exponential,
    Gamma,
    Laplace,
    Mixture,
    Normal,
    Poisson,
    Product,
    Uniform,
    as_measure,
)
from owlfi.points.sequences import halton, iid, latin_hypercube, lattice, sobol, tensor_grid
from owlfi.points.sobol_cells import draw_sobol

KEY = jax.random.key(0)

POINT_SETS = {
    "iid": iid,
    "sobol": sobol,
    "halton": halton,
    "latin_hypercube": latin_hypercube,
    "lattice": lattice,
    "tented_lattice": partial(lattice, tent=True),
}

M = 16  # one shape for most tests: JAX compiles each shape anew

# Each measure with the scipy distribution of each of its coordinates.
MEASURES = {
    "uniform": (
        Uniform([-1, 0], [1, 3]),
        [scipy.stats.uniform(-1, 2), scipy.stats.uniform(0, 3)],
    ),
    "normal": (Normal([1, 2], 2.0), [scipy.stats.norm(1, 2), scipy.stats.norm(2, 2)]),
    "exponential": (Exponential(2.0, dim=2), [scipy.stats.expon(scale=0.5)] * 2),
    "gamma": (Gamma(0.5, 2.0), [scipy.stats.gamma(0.5, scale=0.5)]),
    "product": (
        Product(Gamma(2.0), Normal([1, 2], 2.0)),
        [scipy.stats.gamma(2), scipy.stats.norm(1, 2), scipy.stats.norm(2, 2)],
    ),
    "scipy": (scipy.stats.gumbel_r(1.0, 2.0), [scipy.stats.gumbel_r(1.0, 2.0)]),
}
MIXTURE = Mixture([Normal(-2, 1, dim=2), Normal([1, 3], 0.5)], [0.3, 0.7])

point_sets = pytest.mark.parametrize("point_set", POINT_SETS.values(), ids=POINT_SETS)
measures = pytest.mark.parametrize(
    "measure", [*(measure for measure, _ in MEASURES.values()), MIXTURE], ids=[*MEASURES, "mixture"]
)


def cells(u, m, distributions):
    """Which of m cells of equal probability each coordinate of each point falls in."""
    v = np.stack([d.cdf(column) for d, column in zip(distributions, u.T, strict=True)], -1)
    return np.floor(v * m).astype(int)


def each_cell_once(u, m, distributions):
    return (np.sort(cells(np.asarray(u), m, distributions), 0) == np.arange(m)[:, None]).all()


@point_sets
@measures
def test_points_are_rows_inside_the_support(point_set, measure):
    u = np.asarray(point_set(KEY, M, measure))
    low, high = (np.asarray(end) for end in as_measure(measure).support)
    assert u.shape == (M, as_measure(measure).dim)
    assert np.isfinite(u).all()
    assert ((u >= low) & (u <= high)).all()


@point_sets
@measures
def test_a_key_decides_the_points(point_set, measure):
    u = np.asarray(point_set(KEY, M, measure))
    assert np.array_equal(u, point_set(KEY, M, measure))
    assert not np.isclose(u, point_set(jax.random.key(1), M, measure)).any()


@point_sets
@pytest.mark.parametrize("m", [1, 100])
def test_any_number_of_points_can_be_asked_for(point_set, m):
    u = np.asarray(point_set(KEY, m, Uniform(dim=3)))
    assert u.shape == (m, 3)
    assert len(np.unique(u[:, 0])) == m


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("point_set", [sobol, latin_hypercube])
def test_stratified_points_fall_one_into_each_cell(point_set, measure):
    measure, distributions = MEASURES[measure]
    assert each_cell_once(point_set(KEY, M, measure), M, distributions)


@pytest.mark.parametrize(
    ("point_set", "m"),
    [(sobol, 1), (sobol, 2), (sobol, 1024), (latin_hypercube, 1), (latin_hypercube, 37)],
)
def test_stratification_holds_for_sobol_at_powers_of_two_and_for_latin_hypercubes_always(
    point_set, m
):
    assert each_cell_once(point_set(KEY, m, Uniform(dim=3)), m, [scipy.stats.uniform()] * 3)


def test_sobol_points_of_another_m_are_the_first_of_the_next_larger_set():
    measure = Uniform(dim=2)
    assert np.array_equal(sobol(KEY, 100, measure), sobol(KEY, 128, measure)[:100])


def test_sobol_fills_elementary_boxes_of_two_coordinates():
    u = np.asarray(sobol(KEY, 64, Uniform(dim=2)))
    boxes = np.floor(u * 8).astype(int) @ [8, 1]
    assert np.array_equal(np.sort(boxes), np.arange(64))


def test_sobol_serves_hundreds_of_coordinates():
    measure = Uniform(dim=600)
    u = np.asarray(sobol(KEY, 16, measure))
    assert each_cell_once(u, 16, [scipy.stats.uniform()] * 600)
    assert len(np.unique(u, axis=1).T) == 600


@pytest.mark.parametrize(("m", "dim"), [(2, 3), (31, 1), (31, 5), (64, 2)])
def test_a_lattice_is_made_of_the_multiples_of_its_generator(m, dim):
    u = np.asarray(lattice(KEY, m, Uniform(dim=dim)))
    steps = (u - u[0]) * m
    generator = np.round(steps[1])
    assert np.allclose(steps, np.round(steps), atol=1e-9)
    assert ((np.round(steps) - np.arange(m)[:, None] * generator) % m == 0).all()
    assert each_cell_once((u - u[0]) % 1 + 0.5 / m, m, [scipy.stats.uniform()] * dim)


def test_a_lattice_fills_the_measures_own_interval():
    unit = lattice(KEY, 16, Uniform(dim=2))
    assert np.allclose(lattice(KEY, 16, Uniform(-3, 5, dim=2)), 8 * unit - 3, atol=1e-14)


def test_the_tent_folds_a_lattice():
    v = np.asarray(lattice(KEY, 16, Uniform(dim=2)))
    folded = lattice(KEY, 16, Uniform(dim=2), tent=True)
    assert np.allclose(folded, 1 - np.abs(2 * v - 1), atol=1e-15)


@pytest.mark.parametrize("dim", [2, 4])
def test_larger_lattices_are_better(dim):
    def squared_error(m):  # of equal weights in the Korobov space of smoothness 1
        x = np.asarray(lattice(KEY, m, Uniform(dim=dim)))
        x = (x - x[0]) % 1
        return np.prod(1 + 2 * np.pi**2 * (x * x - x + 1 / 6), axis=1).mean() - 1

    errors = [squared_error(2**k) for k in (10, 13, 16)]
    assert errors[1] < errors[0] / 4
    assert errors[2] < errors[1] / 4


GAUSS_NODES = {
    "legendre": (Uniform(-1, 1), np.polynomial.legendre.leggauss(7)[0]),
    "hermite": (Normal(0, 1), np.polynomial.hermite_e.hermegauss(7)[0]),
    "laguerre": (Exponential(1), np.polynomial.laguerre.laggauss(7)[0]),
    "scaled hermite": (Normal(2, 3), 2 + 3 * np.polynomial.hermite_e.hermegauss(7)[0]),
    "scaled laguerre": (Exponential(4), np.polynomial.laguerre.laggauss(7)[0] / 4),
}


@pytest.mark.parametrize(("measure", "nodes"), GAUSS_NODES.values(), ids=GAUSS_NODES)
def test_grids_in_one_coordinate_are_gauss_nodes(measure, nodes):
    assert np.allclose(tensor_grid(7, measure)[:, 0], nodes, rtol=1e-13, atol=1e-14)


MANY_NODES = {
    "normal": Normal(),
    "exponential": Exponential(),
    "gamma": Gamma(200.0),
    "small gamma": Gamma(1e-3),
    "beta": Beta(0.5, 30.0),
}


@pytest.mark.parametrize("measure", MANY_NODES.values(), ids=MANY_NODES)
def test_many_gauss_nodes_are_distinct_and_in_the_support(measure):
    u = np.asarray(tensor_grid(500, measure))[:, 0]
    assert np.isfinite(u).all()
    assert (np.diff(u) > 0).all()
    assert u[0] > measure.support[0][0]


def test_many_laguerre_nodes_are_symmetric_functions_of_the_measure():
    u = np.asarray(tensor_grid(500, Exponential()))[:, 0]
    assert np.isclose(u.sum(), 500**2, rtol=1e-12)  # the trace of the recurrence
    assert np.isclose((1 / u).sum(), 500, rtol=1e-9)


def test_gauss_nodes_that_overflow_are_refused():
    with pytest.raises(ValueError, match=r"nodes = 1000 .*Beta.*fewer nodes"):
        tensor_grid(1000, Beta(1001.0, 0.01))


GAUSS_MEASURES = {
    "gamma": (Gamma(2.5, 3.0), scipy.stats.gamma(2.5, scale=1 / 3)),
    "beta": (Beta(2.0, 0.7), scipy.stats.beta(2.0, 0.7)),
    "uniform": (Uniform(1, 4), scipy.stats.uniform(1, 3)),
}


@pytest.mark.parametrize(("measure", "frozen"), GAUSS_MEASURES.values(), ids=GAUSS_MEASURES)
def test_gauss_nodes_allow_exactness_up_to_degree_2n_minus_1(measure, frozen):
    u = np.asarray(tensor_grid(4, measure))[:, 0]
    moments = np.array([1.0, *(frozen.moment(k) for k in range(1, 8))])
    powers = u ** np.arange(8)[:, None]
    weights = np.linalg.solve(powers[:4], moments[:4])
    assert np.allclose(powers @ weights, moments, rtol=1e-10)


def test_grids_of_other_families_are_images_of_legendre_nodes():
    levels = 0.5 * (1 + np.polynomial.legendre.leggauss(5)[0])
    assert np.allclose(tensor_grid(5, Laplace())[:, 0], scipy.stats.laplace.ppf(levels))
    frozen = scipy.stats.gumbel_r(1, 2)
    assert np.allclose(tensor_grid(5, frozen)[:, 0], frozen.ppf(levels))


def test_the_last_coordinate_of_a_grid_runs_fastest():
    u = tensor_grid(3, Product(Normal(), Uniform(), Exponential()))
    axes = [tensor_grid(3, measure)[:, 0] for measure in (Normal(), Uniform(), Exponential())]
    rows = [(a, b, c) for a in axes[0] for b in axes[1] for c in axes[2]]
    assert np.array_equal(u, rows)


@pytest.mark.parametrize("measure", [MIXTURE, Poisson(2.0), Product(Normal(), Poisson(2.0))])
def test_grids_need_continuous_independent_coordinates(measure):
    with pytest.raises(ValueError, match="independent"):
        tensor_grid(3, measure)


@pytest.mark.parametrize("edge", [0.0, 1.0])
@pytest.mark.parametrize("measure", MEASURES)
def test_points_on_the_edge_of_the_cube_are_finite_and_in_the_support(monkeypatch, edge, measure):
    monkeypatch.setattr("scipy.stats.qmc.Halton.random", lambda self, m: np.full((m, self.d), edge))
    u = np.asarray(halton(KEY, M, MEASURES[measure][0]))
    low, high = (np.asarray(end) for end in as_measure(MEASURES[measure][0]).support)
    assert np.isfinite(u).all()
    assert ((low <= u) & (u <= high)).all()


@pytest.mark.parametrize("edge", [0.0, 1.0])
def test_points_on_the_edge_of_the_cube_are_moved_inside(monkeypatch, edge):
    monkeypatch.setattr("scipy.stats.qmc.Halton.random", lambda self, m: np.full((m, self.d), edge))
    assert 0 < halton(KEY, 1, Uniform())[0, 0] < 1


@point_sets
def test_many_points_stay_strictly_inside(point_set):
    u = np.asarray(point_set(KEY, 2**14, Uniform(dim=2)))
    assert u.min() > 0
    assert u.max() < 1


def interaction(u):
    return np.prod(1 + (u - 0.5) * np.exp(u - 1), axis=1)


def additive(u):
    return np.exp(u).sum(1)


@cache
def mean_value(function):
    return function(np.asarray(sobol(jax.random.key(7), 2**16, Uniform(dim=2)))).mean()


def root_mean_square_error(point_set, function, m):
    keys = jax.random.split(jax.random.key(1), 16)
    u = [np.asarray(point_set(key, m, Uniform(dim=2))) for key in keys]
    return np.sqrt(np.mean([(function(v).mean() - mean_value(function)) ** 2 for v in u]))


EVEN = {
    "sobol": (sobol, interaction),
    "halton": (halton, interaction),
    "lattice": (lattice, interaction),
    "tented lattice": (partial(lattice, tent=True), interaction),
    "latin hypercube": (latin_hypercube, additive),
}


@pytest.mark.parametrize(("point_set", "function"), EVEN.values(), ids=EVEN)
def test_means_over_even_points_converge_faster_than_over_independent_ones(point_set, function):
    coarse, fine = (root_mean_square_error(point_set, function, m) for m in (64, 1024))
    assert fine < coarse / 8  # independent points gain a factor 4
    assert fine < 0.2 * root_mean_square_error(iid, function, 1024)


@point_sets
def test_points_of_a_scipy_distribution_are_those_of_the_same_measure(point_set):
    assert np.array_equal(
        point_set(KEY, M, scipy.stats.norm([1, 2], 2)), point_set(KEY, M, Normal([1, 2], 2))
    )


def test_keys_of_the_old_kind_work():
    assert sobol(jax.random.PRNGKey(3), 4, Uniform()).shape == (4, 1)


def test_point_sets_on_the_host_say_so_inside_jit():
    with pytest.raises(ValueError, match="outside of jit"):
        jax.jit(lambda key: sobol(key, 4, Uniform()))(KEY)


def test_independent_points_can_be_drawn_inside_jit():
    inside = jax.jit(lambda key: iid(key, M, Normal([1, 2], 2)))(KEY)
    assert np.allclose(inside, iid(KEY, M, Normal([1, 2], 2)), rtol=1e-13)


@pytest.mark.parametrize("dim", [1, 2, 7, 256, 257, 2001])
@pytest.mark.parametrize("m", [1, 3, 128])
def test_sobol_points_are_those_of_scipy(dim, m):
    bits = 52 if dim <= 2000 else 32
    engine = scipy.stats.qmc.Sobol(dim, bits=bits, rng=np.random.default_rng(m))
    cells = engine.random_base2((m - 1).bit_length())[:m]
    drawn = draw_sobol(np.random.default_rng(m), m, dim)
    np.testing.assert_array_equal(drawn, cells + 0.5 ** (bits + 1))
