"""Fast weights on lattices and grids: those of the dense solution, and only where they apply."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import zeta

from owlfi import (
    Korobov,
    Matern,
    Normal,
    Product,
    Separable,
    SquaredExponential,
    Uniform,
    embed,
    lattice,
    optimal_weights,
    squared_worst_case_error,
    tensor_grid,
)
from owlfi.weights.structured import solve_grid, solve_lattice

KEY = jax.random.key(0)
ZERO = jnp.zeros(())
slow = pytest.mark.slow


@jax.jit
def gram(kernel, u):
    return kernel.gram(u, u)


def dense_weights(kernel, measure, u, nugget):
    matrix = np.asarray(gram(kernel, u)) + nugget * np.eye(len(u))
    return np.linalg.solve(matrix, embed(kernel, measure).mean(u))


def is_lattice(kernel, measure, u):
    return solve_lattice(kernel, measure, jnp.asarray(u), ZERO) is not None


def is_grid(kernel, measure, u):
    return solve_grid(kernel, measure, jnp.asarray(u), ZERO) is not None


# Korobov kernels with measures whose lattices have a circulant Gram matrix.
LATTICES = {
    "one coordinate": (Korobov(alpha=1), Uniform()),
    "weights of coordinates": (Korobov(1, weight=[1.0, 0.2]), Uniform(dim=2)),
    "scaled": (3.0 * Korobov(alpha=1), Uniform(dim=2)),
    "another interval": (Korobov(alpha=1, period=4.0), Uniform(-1, 3, dim=2)),
}


@pytest.mark.parametrize(("kernel", "measure"), LATTICES.values(), ids=LATTICES)
@pytest.mark.parametrize("nugget", [0.0, 1e-3])
def test_weights_on_a_lattice_equal_the_dense_ones(kernel, measure, nugget):
    u = lattice(KEY, 32, measure)
    found = optimal_weights(kernel, measure, u, nugget=nugget)
    assert is_lattice(kernel, measure, u)
    assert np.allclose(found.weights, dense_weights(kernel, measure, u, nugget), rtol=1e-11)
    assert np.isclose(
        found.squared_worst_case_error,
        squared_worst_case_error(kernel, measure, u, found.weights),
        atol=1e-13,
    )


def test_the_condition_number_on_a_lattice():
    measure = Uniform(dim=2)
    u = lattice(KEY, 32, measure)
    found = optimal_weights(Korobov(), measure, u, nugget=0.0)
    assert np.isclose(found.condition, np.linalg.cond(gram(Korobov(), u)), rtol=1e-8)


def test_a_regular_grid_in_one_coordinate_is_a_lattice():
    assert is_lattice(Korobov(), Uniform(), np.linspace(0, 1, 32, endpoint=False)[:, None])


@slow
@pytest.mark.parametrize("m", [1, 2, 3])
def test_very_small_lattices(m):
    u = lattice(KEY, m, Uniform())
    found = optimal_weights(Korobov(), Uniform(), u, nugget=0.0)
    assert np.allclose(found.weights, dense_weights(Korobov(), Uniform(), u, 0.0), rtol=1e-12)


def test_weights_of_tens_of_thousands_of_lattice_points_need_no_matrix():
    measure = Uniform(dim=2)
    found = optimal_weights(Korobov(), measure, lattice(KEY, 2**16, measure))
    assert found.weights.shape == (2**16,)
    assert np.allclose(found.weights * 2**16, 1, rtol=1e-2)
    assert 0 < found.squared_worst_case_error < 1e-3


@pytest.mark.parametrize("alpha", [1, 2, 3, 4])
def test_the_squared_error_on_a_lattice_is_exact_up_to_rounding(alpha):
    u = lattice(KEY, 32, Uniform())
    found = optimal_weights(Korobov(alpha=alpha), Uniform(), u, nugget=0.0)
    # Equal weights leave Σ_{h≠0} |32 h|^(-2 alpha); the optimal ones divide by one plus that.
    left = 2 * zeta(2 * alpha) / 32.0 ** (2 * alpha)
    assert np.isclose(found.squared_worst_case_error, left / (1 + left), rtol=1e-9, atol=2e-15)


@pytest.mark.parametrize("alpha", [3, pytest.param(4, marks=slow)])
def test_the_condition_number_of_a_nearly_singular_lattice_is_large(alpha):
    measure = Uniform(dim=2)
    u = lattice(KEY, 2**16, measure)
    assert optimal_weights(Korobov(alpha=alpha), measure, u, nugget=0.0).condition > 1e10


@pytest.mark.parametrize(
    ("kernel", "u"),
    [
        (Korobov(), np.full((32, 1), 0.3)),
        (Korobov(period=0.5), np.linspace(0, 1, 32, endpoint=False)[:, None]),
    ],
    ids=["one point", "two periods"],
)
def test_lattices_of_repeated_points_take_a_nugget_and_report_it(kernel, u):
    found = optimal_weights(kernel, Uniform(), u, nugget=0.0)
    assert np.isfinite(found.weights).all()
    assert found.nugget > 0


def test_a_permuted_lattice_is_solved_densely_with_the_same_weights():
    measure = Uniform(dim=2)
    u = np.asarray(lattice(KEY, 32, measure))
    order = np.random.default_rng(0).permutation(32)
    kernel = Korobov(alpha=1, period=2.0)  # its weights differ from point to point
    assert not is_lattice(Korobov(), measure, u[order])
    straight = optimal_weights(Korobov(), measure, u, nugget=0.0).weights
    permuted = optimal_weights(Korobov(), measure, u[order], nugget=0.0).weights
    assert np.allclose(permuted, straight[order], rtol=1e-10)
    assert not is_lattice(kernel, measure, u)
    uneven = optimal_weights(kernel, measure, u, nugget=0.0).weights
    assert np.allclose(uneven, dense_weights(kernel, measure, u, 0.0), rtol=1e-9)


@pytest.mark.parametrize("dim", [1, pytest.param(2, marks=slow)])
def test_a_tented_lattice_is_not_taken_for_a_lattice(dim):
    measure = Uniform(dim=dim)
    u = lattice(KEY, 32, measure, tent=True)
    assert not is_lattice(Korobov(), measure, u)
    found = optimal_weights(Korobov(), measure, u, nugget=1e-6)
    assert np.allclose(found.weights, dense_weights(Korobov(), measure, u, 1e-6), rtol=1e-8)


NOT_LATTICES = {
    "another kernel": (SquaredExponential(), Uniform(), np.arange(8)[:, None] / 8),
    "another measure": (Korobov(), Normal(), np.arange(8)[:, None] / 8),
    "one point moved": (Korobov(), Uniform(), np.array([[0.0], [0.25], [0.5], [0.751]])),
    "points at random": (Korobov(), Uniform(), np.random.default_rng(0).uniform(size=(8, 1))),
}


@pytest.mark.parametrize(("kernel", "measure", "u"), NOT_LATTICES.values(), ids=NOT_LATTICES)
def test_what_is_not_a_lattice(kernel, measure, u):
    assert not is_lattice(kernel, measure, u)


GRIDS = {
    "normal": (SquaredExponential([0.5, 0.8]), Normal(dim=2)),
    "matern": (Separable(Matern(1.5, 0.5)), Uniform(dim=2)),
}
SLOW_GRIDS = {
    "product": (SquaredExponential(0.3), Product(Normal(), Uniform())),
    "three coordinates": (SquaredExponential(0.3), Uniform(dim=3)),
}


@pytest.mark.parametrize(
    ("kernel", "measure"),
    [*GRIDS.values(), *(pytest.param(*grid, marks=slow) for grid in SLOW_GRIDS.values())],
    ids=[*GRIDS, *SLOW_GRIDS],
)
@pytest.mark.parametrize("nugget", [0.0, 1e-8, 1e-3])
def test_weights_on_a_grid_equal_the_dense_ones(kernel, measure, nugget):
    u = tensor_grid(4, measure)
    found = optimal_weights(kernel, measure, u, nugget=nugget)
    assert is_grid(kernel, measure, u)
    assert np.allclose(found.weights, dense_weights(kernel, measure, u, nugget), rtol=1e-9)
    assert np.isclose(
        found.squared_worst_case_error,
        squared_worst_case_error(kernel, measure, u, found.weights),
        atol=1e-13,
    )
    assert found.nugget == nugget


@pytest.mark.parametrize("nugget", [0.0, 1e-3])
def test_the_condition_number_on_a_grid(nugget):
    kernel, measure = GRIDS["normal"]
    u = tensor_grid(4, measure)
    found = optimal_weights(kernel, measure, u, nugget=nugget)
    reference = np.linalg.cond(gram(kernel, u) + nugget * np.eye(16))
    assert np.isclose(found.condition, reference, rtol=1e-8)


def test_a_nearly_singular_grid_takes_the_nugget_of_the_dense_solution():
    kernel, measure = SquaredExponential(2.0), Uniform(dim=2)
    u = tensor_grid(8, measure)
    found = optimal_weights(kernel, measure, u, nugget=0.0)
    dense = optimal_weights(kernel, measure, u[None], nugget=0.0)
    assert 0 < found.nugget < 1e-12
    assert 0.01 < found.nugget / dense.nugget[0] < 100
    assert np.isfinite(found.weights).all()
    assert abs(found.squared_worst_case_error) < 1e-12


def test_the_nugget_on_a_grid_has_a_gradient():
    measure = Uniform(dim=2)
    u = tensor_grid(2, measure)

    def weight(nugget):
        return optimal_weights(SquaredExponential(0.5), measure, u, nugget=nugget).weights[0]

    slope = (weight(1e-2 + 1e-6) - weight(1e-2 - 1e-6)) / 2e-6
    assert np.isclose(jax.grad(weight)(1e-2), slope, rtol=1e-6)


UNEVEN_GRID = np.array([(a, b) for a in (0.1, 0.3, 0.6, 0.9) for b in (0.0, 0.5, 1.0)])


def test_grids_may_have_a_different_number_of_nodes_in_each_coordinate():
    kernel, measure = SquaredExponential(0.3), Uniform(dim=2)
    assert is_grid(kernel, measure, UNEVEN_GRID)
    found = optimal_weights(kernel, measure, UNEVEN_GRID, nugget=0.0)
    assert np.allclose(found.weights, dense_weights(kernel, measure, UNEVEN_GRID, 0.0), rtol=1e-9)


def test_a_grid_in_another_order_has_the_same_weights():
    kernel, measure = SquaredExponential(0.3), Uniform(dim=2)
    order = np.random.default_rng(0).permutation(12)
    assert not is_grid(kernel, measure, UNEVEN_GRID[order])
    straight = optimal_weights(kernel, measure, UNEVEN_GRID, nugget=0.0).weights
    permuted = optimal_weights(kernel, measure, UNEVEN_GRID[order], nugget=0.0).weights
    assert np.allclose(permuted, straight[order], rtol=1e-9)


def test_an_isotropic_kernel_does_not_split_over_a_grid():
    assert not is_grid(Matern(1.5), Uniform(dim=2), tensor_grid(4, Uniform(dim=2)))


def two_moons(u):
    """A smooth kernel between a point and a noisy half circle."""
    x, y = np.cos(np.pi * u[:, 0]), np.sin(np.pi * u[:, 0]) + 0.2 * u[:, 1]
    return np.exp(-0.5 * (x - 0.3) ** 2 - 0.5 * y**2)


def test_a_smooth_integrand_on_a_gauss_grid_is_integrated_to_twelve_digits():
    measure = Uniform(dim=2)
    u = tensor_grid(16, measure)
    found = optimal_weights(SquaredExponential(0.2), measure, u, nugget=0.0)
    nodes, weights = np.polynomial.legendre.leggauss(40)
    fine = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), -1).reshape(-1, 2) / 2 + 0.5
    integral = two_moons(fine) @ np.outer(weights, weights).ravel() / 4
    assert abs(found.weights @ two_moons(np.asarray(u)) - integral) < 1e-12


def test_structure_is_no_obstacle_inside_jit():
    measure = Uniform(dim=2)
    u = lattice(KEY, 32, measure)
    compiled = jax.jit(lambda u: optimal_weights(Korobov(), measure, u, nugget=0.0).weights)
    assert np.allclose(compiled(u), optimal_weights(Korobov(), measure, u, nugget=0.0).weights)
