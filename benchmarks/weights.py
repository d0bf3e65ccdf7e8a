"""Optimal quadrature weights: one dense design, many small ones, and structured ones."""

from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.report import Bar, Row, peer_row, time_row
from benchmarks.timing import Call, Contender, race

_POINTS = 4096
_DIM = 5
_NUGGET = 1e-8
_DESIGNS = (1000, 10, 2)

INVERSE = "NumPy, explicit inverse"
SCIPY = "SciPy, cho_solve"
BATCHED = "NumPy, batched solve"
OWLFI = "owlfi.optimal_weights"


def normal_embedding(u: np.ndarray) -> np.ndarray:
    """z(u) of exp(-r²/2) under independent standard normals."""
    return np.exp(-(u**2).sum(axis=-1) / 4) / np.sqrt(2) ** u.shape[-1]


def dense_points() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(_POINTS, _DIM))


def small_designs() -> np.ndarray:
    return np.random.default_rng(0).normal(size=_DESIGNS)


def _dense_gram(u: np.ndarray) -> np.ndarray:
    from scipy.spatial.distance import cdist

    gram = np.exp(-0.5 * cdist(u, u, "sqeuclidean"))
    gram[np.diag_indices_from(gram)] += _NUGGET
    return gram


def by_inverse() -> Call:
    u = dense_points()
    return lambda: np.linalg.inv(_dense_gram(u)) @ normal_embedding(u)


def by_cholesky() -> Call:
    from scipy.linalg import cho_factor, cho_solve

    u = dense_points()

    def call() -> np.ndarray:
        factor = cho_factor(_dense_gram(u), overwrite_a=True, check_finite=False)
        return cho_solve(factor, normal_embedding(u), check_finite=False)

    return call


def by_batched_solve() -> Call:
    u = small_designs()

    def call() -> np.ndarray:
        differences = u[:, :, None, :] - u[:, None, :, :]
        gram = np.exp(-0.5 * (differences**2).sum(axis=-1)) + _NUGGET * np.eye(u.shape[1])
        return np.linalg.solve(gram, normal_embedding(u)[..., None])[..., 0]

    return call


def by_owlfi(many: bool) -> Call:
    import owlfi

    u = small_designs() if many else dense_points()
    c, measure = owlfi.SquaredExponential(1.0), owlfi.Normal(0.0, 1.0, dim=u.shape[-1])
    return lambda: np.asarray(owlfi.optimal_weights(c, measure, u, nugget=_NUGGET).weights)


def on_lattice(points: int) -> Call:
    import jax

    import owlfi

    measure = owlfi.Uniform(0, 1, dim=3)
    design = owlfi.lattice(jax.random.key(0), points, measure)
    c = owlfi.Korobov(alpha=2)
    return lambda: np.asarray(owlfi.optimal_weights(c, measure, design).weights)


def on_tensor_grid(points_a_side: int) -> Call:
    import owlfi

    measure = owlfi.Normal(dim=3)
    design = owlfi.tensor_grid(points_a_side, measure)
    c = owlfi.SquaredExponential(1.0)
    return lambda: np.asarray(owlfi.optimal_weights(c, measure, design).weights)


def dense() -> list[Row]:
    ways = {SCIPY: by_cholesky, INVERSE: by_inverse, OWLFI: partial(by_owlfi, many=False)}
    result = race(_contenders(ways), rounds=5)
    what = f"m = {_POINTS:,}, s = {_DIM}"
    return [
        peer_row(time_row(what, result, INVERSE), result, OWLFI, Bar(2.5)),
        peer_row(time_row(what, result, SCIPY), result, OWLFI, Bar(1)),
        time_row(what, result, OWLFI),
    ]


def many_designs() -> list[Row]:
    ways = {BATCHED: by_batched_solve, OWLFI: partial(by_owlfi, many=True)}
    result = race(_contenders(ways))
    what = "{:,} designs of m = {}, s = {}, in one call".format(*_DESIGNS)
    own = time_row(what, result, OWLFI, Bar(10, "ms", at_least=False))
    return [peer_row(time_row(what, result, BATCHED), result, OWLFI, Bar(1)), own]


def _contenders(ways: dict[str, Callable[[], Call]]) -> list[Contender]:
    # Rounding is magnified by the condition number of the Gram matrix, up to m / nugget.
    return [Contender(name, build, tolerance=1e-5) for name, build in ways.items()]


def structured() -> list[Row]:
    """Designs whose Gram matrix is never formed."""
    ways = {
        "lattice and Korobov kernel by FFT, m = 2^16, s = 3": partial(on_lattice, 2**16),
        "lattice and Korobov kernel by FFT, m = 2^20, s = 3": partial(on_lattice, 2**20),
        "tensor grid by Kronecker factors, m = 32^3, s = 3": partial(on_tensor_grid, 32),
    }
    return [_time_alone(what, build) for what, build in ways.items()]


def _time_alone(what: str, build: partial[Call]) -> Row:
    return time_row(what, race([Contender(OWLFI, build)]), OWLFI)


BENCHMARKS = {"dense": dense, "many_designs": many_designs, "structured": structured}
