"""Weighted kernel sums: right for every kernel and size, accurate far out, small in memory."""

import os
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.distance import cdist

import owlfi
import owlfi.kernels.pair_sums
from owlfi.kernels import (
    Constant,
    FunctionKernel,
    InverseMultiquadric,
    Matern,
    RationalQuadratic,
    Separable,
    SquaredExponential,
)
from owlfi.kernels.base import StretchedKernel
from owlfi.kernels.transformed import Transformed

row_sums = eqx.filter_jit(lambda kernel, y, x, weights: kernel.row_sums(y, x, weights))
self_sum = eqx.filter_jit(lambda kernel, x, weights: kernel.self_sum(x, weights))


def normal(*shapes):
    """Normal numbers, always the same."""
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape) for shape in shapes]


def squared_exponential(y, x, lengthscale=1.0):
    return np.exp(-0.5 * cdist(y / lengthscale, x / lengthscale, "sqeuclidean"))


def matern_5_2(y, x, lengthscale=1.0):
    t = np.sqrt(5) * cdist(y / lengthscale, x / lengthscale)
    return (1 + t + t**2 / 3) * np.exp(-t)


def inverse_multiquadric(y, x):
    return (1 + cdist(y, x, "sqeuclidean")) ** -0.5


# Each kernel with its matrix in plain NumPy, for points with 3 coordinates.
SCALES = np.array([0.5, 1.0, 2.0])
KERNELS = {
    "squared exponential": (
        SquaredExponential(SCALES),
        lambda y, x: squared_exponential(y, x, SCALES),
    ),
    "matern": (Matern(2.5, SCALES), lambda y, x: matern_5_2(y, x, SCALES)),
    "inverse multiquadric": (InverseMultiquadric(), inverse_multiquadric),
    "rational quadratic": (
        RationalQuadratic(1.0, alpha=2.0),
        lambda y, x: (1 + cdist(y, x, "sqeuclidean") / 4) ** -2.0,
    ),
    "scaled sum": (
        2.0 * (3.0 * SquaredExponential() + InverseMultiquadric() + 0.5),
        lambda y, x: 6 * squared_exponential(y, x) + 2 * inverse_multiquadric(y, x) + 1,
    ),
    "product": (
        SquaredExponential() * InverseMultiquadric(),
        lambda y, x: squared_exponential(y, x) * inverse_multiquadric(y, x),
    ),
    "constant": (Constant(2.0), lambda y, x: np.full((len(y), len(x)), 2.0)),
    "separable": (
        Separable(Matern(0.5)),
        lambda y, x: np.exp(-cdist(y, x, "cityblock")),
    ),
    "own function": (
        FunctionKernel(lambda a, b: (1 + a @ b) ** 2),
        lambda y, x: (1 + y @ x.T) ** 2,
    ),
}


@jax.jit
def sums(kernel, y, x, v):
    return row_sums(kernel, y, x, v), self_sum(kernel, x, v)


@pytest.mark.parametrize(("kernel", "matrix"), KERNELS.values(), ids=KERNELS)
def test_sums_of_every_kernel_equal_those_of_its_matrix(kernel, matrix):
    y, x, v = normal((9, 3), (14, 3), 14)
    rows, own = sums(kernel, y, x, v)
    assert np.allclose(rows, matrix(y, x) @ v, rtol=1e-13, atol=1e-12)
    assert np.isclose(own, v @ matrix(x, x) @ v, rtol=1e-13, atol=1e-12)


@pytest.mark.parametrize(
    ("kernel", "matrix", "d"),
    [
        (SquaredExponential, squared_exponential, 1),
        (SquaredExponential, squared_exponential, 10),
        (Matern, matern_5_2, 40),
    ],
)
def test_sums_over_several_tiles_equal_those_of_the_matrix(kernel, matrix, d):
    kernel = kernel(lengthscale=d**0.5)
    y, x, v = normal((1300, d), (2050, d), 2050)
    rows, own = sums(kernel, y, x, v)
    assert np.allclose(rows, matrix(y, x, d**0.5) @ v, rtol=1e-13, atol=1e-11)
    assert np.isclose(own, v @ matrix(x, x, d**0.5) @ v, rtol=1e-11)


@pytest.mark.parametrize(("m", "n"), [(4, 8), (9, 3)])
def test_sums_hold_on_both_sides_of_a_tiles_edge(monkeypatch, m, n):
    monkeypatch.setattr(owlfi.kernels.pair_sums, "_LARGEST_SIDE", 4)
    monkeypatch.setattr(owlfi.kernels.pair_sums, "_PAIRS", 16)
    y, x, v = normal((m, 2), (n, 2), n)
    kernel = FunctionKernel(lambda a, b: a @ b)
    rows, own = jax.jit(lambda y, x, v: (row_sums(kernel, y, x, v), self_sum(kernel, x, v)))(
        y, x, v
    )
    assert np.allclose(rows, y @ (x.T @ v), atol=1e-13)
    assert np.isclose(own, np.sum((x.T @ v) ** 2), atol=1e-13)


PROFILES = {
    "squared exponential": (SquaredExponential(), lambda r2: np.exp(-0.5 * r2)),
    "inverse multiquadric": (InverseMultiquadric(), lambda r2: (1 + r2) ** -0.5),
}
profiles = pytest.mark.parametrize(("kernel", "profile"), PROFILES.values(), ids=PROFILES)


def assert_accurate(kernel, profile, y, x):
    """Against the sums of the differences themselves, where all terms are positive."""
    v = np.ones(len(x))
    rows, own = sums(kernel, y, x, v)
    assert np.allclose(rows, profile(cdist(y, x, "sqeuclidean")) @ v, rtol=1e-10, atol=0)
    assert np.isclose(own, profile(cdist(x, x, "sqeuclidean")).sum(), rtol=1e-10, atol=0)


@profiles
@pytest.mark.parametrize("d", [3, 10])
def test_sums_keep_their_digits_where_data_is_shifted(kernel, profile, d):
    y, x = normal((9, d), (14, d))
    assert_accurate(kernel, profile, y + 1e6, x + 1e6)


@profiles
@pytest.mark.parametrize("d", [3, 10])
def test_sums_keep_their_digits_where_clusters_are_far_apart(kernel, profile, d):
    y, x = normal((9, d), (14, d))
    y[::2] += 1e8
    x[::3] += 1e8
    assert_accurate(kernel, profile, y, x)


def test_gradients_stay_finite_where_clusters_are_far_apart():
    (x,) = normal((9, 5))
    x[4:] += 1e12
    gradient = jax.grad(lambda x: self_sum(SquaredExponential(), x, jnp.ones(9)))
    assert np.isfinite(jax.jit(jax.vmap(gradient))(np.stack([x, x / 1e12]))).all()


MEASURE_MEMORY = """
import jax, jax.numpy as jnp, numpy as np
from owlfi import SquaredExponential, squared_mmd

def kilobytes(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name))

y, x = np.random.default_rng(0).normal(size=(2, 20_000, 5))
y, x, kernel = jnp.asarray(y), jnp.asarray(x), SquaredExponential(2.0)
squared_mmd(kernel, y[:2], x[:2]).block_until_ready()
base = kilobytes("VmRSS")
CALL.block_until_ready()
print((kilobytes("VmHWM") - base) / 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    "call",
    [
        "squared_mmd(kernel, y, x)",
        pytest.param(
            "jax.grad(lambda y: squared_mmd(kernel, y, x, data_term=0.0))(y)",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["value", "gradient"],
)
def test_memory_stays_far_below_that_of_the_matrix(call):
    """The matrix would take 3200 MB; compiling for the new shapes counts as growth, too."""
    source = Path(owlfi.__file__).parents[1]
    process = subprocess.run(
        [sys.executable, "-c", MEASURE_MEMORY.replace("CALL", call)],
        env={**os.environ, "PYTHONPATH": str(source), "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(process.stdout) < 200


WRAPPED = {
    "transformed": Transformed(SquaredExponential(SCALES), jnp.diag(jnp.array([2.0, 1.0, 0.5]))),
    "stretched": StretchedKernel(SquaredExponential(SCALES), 1.7),
    "stretched sum": (0.5 * SquaredExponential(SCALES) + Matern(2.5)).stretch(1.7),
    "stretched and transformed": Transformed(SquaredExponential(), jnp.eye(3)).stretch(0.6),
}


@pytest.mark.parametrize("kernel", WRAPPED.values(), ids=WRAPPED)
def test_wrapped_kernels_sum_as_their_matrix(kernel):
    y, x, v = normal((9, 3), (14, 3), 14)
    np.testing.assert_allclose(row_sums(kernel, y, x, v), kernel.gram(y, x) @ v, atol=1e-12)
    np.testing.assert_allclose(self_sum(kernel, x, v), v @ kernel.gram(x, x) @ v, atol=1e-12)


@pytest.mark.parametrize("name", ["transformed", "stretched", "stretched and transformed"])
def test_wrapped_squared_exponentials_say_where_they_are_gaussian(name):
    y, x = normal((9, 3), (14, 3))
    y, x = jnp.asarray(y), jnp.asarray(x)
    at = WRAPPED[name].gaussian_coordinates()
    np.testing.assert_allclose(
        WRAPPED[name].gram(y, x), squared_exponential(at(y), at(x)), rtol=1e-12
    )


@pytest.mark.parametrize("wrap", [lambda k: k, lambda k: 2.0 * k, lambda k: k.stretch(1.1)])
def test_wrapping_keeps_the_sum_by_products(wrap):
    """One matrix product of all rows, not one loop a coordinate, in the compiled program."""
    y, x, v = normal((600, 40), (5000, 40), 5000)
    kernel = wrap(Transformed(SquaredExponential(8.0), jnp.eye(40)))
    program = str(jax.make_jaxpr(kernel.row_sums)(y, x, v))
    assert program.count("dot_general") >= 3  # of the transformation, twice, and of the exponents


def test_more_coordinates_than_a_tile_may_hold():
    y, x = normal((513, 33_000), (3, 33_000))
    kernel = FunctionKernel(lambda a, b: a[0] * b[0])
    weights = np.array([1.0, 2.0, 3.0])
    expected = y[:, 0] * (x[:, 0] @ weights)
    np.testing.assert_allclose(row_sums(kernel, y, x, weights), expected, rtol=1e-12)
