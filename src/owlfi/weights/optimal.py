"""Weights for simulated points: Bayesian quadrature in the space of the noise u.

The optimal weights w = C⁻¹ z (eq. 6 of the paper) minimise the worst-case error
I - 2 wᵀz + wᵀCw over the unit ball of the base kernel's space.
"""

from contextlib import suppress
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from owlfi._tools.checks import as_array, as_weights, brief, is_traced
from owlfi._tools.programs import compile_quickly
from owlfi.embeddings.embed import Embedding, embed
from owlfi.kernels import Kernel
from owlfi.measures import as_measure, as_points
from owlfi.weights.large import LARGE, solve_large
from owlfi.weights.quadrature import Quadrature, equal_shares
from owlfi.weights.structured import LARGEST_CONDITION, Solution, solve_grid, solve_lattice

_LARGEST_DENSE = 30_000
_SMALL_DESIGN = 48
_ENTRIES_AT_ONCE = 2**22
_FEW_ENTRIES = 2**15  # of Gram matrices, for which a quick program is fast enough
_PAIRS_AT_ONCE = 2**18  # a Matérn kernel may hold hundreds of numbers for each


def optimal_weights(
    base_kernel: Kernel, measure: Any, points: Any, *, nugget: float = 1e-8
) -> Quadrature:
    """The quadrature with weights (C + nugget·1)⁻¹ z at the given points.

    base_kernel: c, on the space of u.
    measure: the distribution of u.
    points: (m, s), (m,) where s = 1, or (..., m, s) for many designs in one call.
    nugget: added to the diagonal of C, so in units of c(u, u), which is 1 for kernels that are not
        scaled; multiplied by ten while the matrix is singular in double precision, and reported.

    Costs m³/3 by a Cholesky factorisation; m log m for an untented lattice with the Korobov kernel
    whose period is the measure's width; s·m^(1+1/s) for a tensor grid with a separable kernel.

    Raises ValueError for points outside the measure's support, a negative nugget, and more than
    30,000 points without such structure.

    >>> from owlfi.kernels import SquaredExponential
    >>> from owlfi.measures import Uniform
    >>> optimal_weights(SquaredExponential(1.0), Uniform(), [0.2, 0.5, 0.8]).weights.round(3)
    Array([0.45, 0.1 , 0.45], dtype=float64)
    """
    measure = as_measure(measure)
    u = as_points("points", points, measure, batched=True)
    jitter = as_array("nugget", nugget)
    if jitter.ndim or (not is_traced(jitter) and np.asarray(jitter) < 0):
        raise ValueError(f"nugget must be a number of at least 0, got {brief(nugget)}")
    embedding = embed(base_kernel, measure)
    alone = u.ndim == 2 and not is_traced(u, measure, base_kernel, jitter)
    for solve_structured in (solve_lattice, solve_grid) if alone else ():
        solution = solve_structured(base_kernel, measure, u, jitter)
        if solution is not None:
            return _as_quadrature(u, solution)
    if u.shape[-2] > _LARGEST_DENSE:
        raise ValueError(
            f"{u.shape[-2]} points need a dense matrix of {u.shape[-2] ** 2 * 8 / 1e9:.0f} GB; use "
            "lattice(...) with the Korobov kernel, tensor_grid(...), or fewer points"
        )
    posed = (base_kernel, u, *_embed(embedding, u), jitter)
    if alone and len(u) >= LARGE:
        return _as_quadrature(u, solve_large(*posed))
    few = u.size // u.shape[-1] * u.shape[-2] <= _FEW_ENTRIES
    return (_solve_few if few else _solve_many)(*posed)


def squared_worst_case_error(
    base_kernel: Kernel, measure: Any, points: Any, weights: Any = None
) -> Float[Array, "..."]:
    """I - 2 wᵀz + wᵀCw of any weights (m,) at points (m, s); equal weights where left out.

    Many designs (..., m, s) in one call have weights (m,) or (..., m). Memory grows with m alone,
    time with m².

    >>> from owlfi.kernels import SquaredExponential
    >>> from owlfi.measures import Uniform
    >>> squared_worst_case_error(SquaredExponential(1.0), Uniform(), [0.5]).round(6)
    Array(0.004609, dtype=float64)
    """
    measure = as_measure(measure)
    u = as_points("points", points, measure, batched=True)
    w = equal_shares(u) if weights is None else as_weights("weights", weights, u)
    w = jnp.broadcast_to(w, u.shape[:-1])
    embedding = embed(base_kernel, measure)
    cross = (w * _means(embedding, u)).sum(-1)
    own = _quadratic_form(base_kernel, u, w)
    return embedding.norm2 - 2 * cross + own


def equal_weights(base_kernel: Kernel, measure: Any, points: Any) -> Quadrature:
    """The quadrature with weights 1/m at points (m, s) or (..., m, s), and its worst-case error.

    >>> from owlfi.kernels import SquaredExponential
    >>> from owlfi.measures import Uniform
    >>> equal_weights(SquaredExponential(1.0), Uniform(), [0.2, 0.8]).weights
    Array([0.5, 0.5], dtype=float64)
    """
    u = as_points("points", points, as_measure(measure), batched=True)
    error = squared_worst_case_error(base_kernel, measure, u)
    return Quadrature(u, equal_shares(u), error, jnp.ones_like(error), jnp.zeros_like(error))


def _embed(embedding: Embedding, u: Array) -> tuple[Array, Array]:
    """z (..., m) and I, by one program where the numbers of the measure are not needed."""
    if embedding.measure.traceable_density and not is_traced(embedding, u):
        with suppress(ValueError):  # no closed form
            return _compiled_embed(embedding, u)
    return _means(embedding, u), embedding.norm2


@eqx.filter_jit
def _compiled_embed(embedding: Embedding, u: Array) -> tuple[Array, Array]:
    return _means(embedding, u), embedding.norm2


def _means(embedding: Embedding, u: Array) -> Array:
    return embedding.mean(u.reshape(-1, u.shape[-1])).reshape(u.shape[:-1])


@eqx.filter_jit
def _quadratic_form(
    base_kernel: Kernel, u: Float[Array, "... m s"], w: Float[Array, "... m"]
) -> Array:
    """wᵀCw of each design, a few rows of C at a time, and by differences: it keeps all digits."""
    m = u.shape[-2]

    def sum_pairs(design: tuple[Array, Array]) -> Array:
        points, weights = design
        sum_row = jax.checkpoint(lambda point: base_kernel.gram(point[None], points)[0] @ weights)
        at_once = min(m, max(1, _PAIRS_AT_ONCE // m))
        return weights @ jax.lax.map(sum_row, points, batch_size=at_once)

    designs = u.reshape(-1, *u.shape[-2:])
    return jax.lax.map(sum_pairs, (designs, w.reshape(-1, m))).reshape(u.shape[:-2])


def _as_quadrature(u: Array, solution: Solution) -> Quadrature:
    error = solution.norm2 - 2 * solution.cross + solution.own
    return Quadrature(u, solution.weights, error, solution.condition, solution.nugget)


def _solve_dense(
    base_kernel: Kernel, u: Array, z: Array, norm2: Array, nugget: Array
) -> Quadrature:
    """Weights for designs (..., m, s) with embeddings z (..., m)."""

    def solve(design: tuple[Array, Array]) -> Solution:
        points, means = design
        return solve_gram(base_kernel.gram(points, points), means, norm2, nugget)

    # Side by side only while small: XLA's batched triangular solve is slow, LAPACK's is not.
    batch, m = u.shape[:-2], u.shape[-2]
    designs = u.reshape(-1, *u.shape[-2:]), z.reshape(-1, m)
    at_once = min(len(designs[0]), _ENTRIES_AT_ONCE // m**2) if m <= _SMALL_DESIGN else None
    found = jax.lax.map(solve, designs, batch_size=at_once)
    return _as_quadrature(u, jax.tree.map(lambda a: a.reshape(*batch, *a.shape[1:]), found))


_solve_few, _solve_many = compile_quickly(_solve_dense), eqx.filter_jit(_solve_dense)


def solve_gram(gram: Array, z: Array, norm2: Array, nugget: Array) -> Solution:
    """Weights of one design from its Gram matrix (m, m) and embedding (m,)."""
    found = _factorise(jax.lax.stop_gradient(gram), jax.lax.stop_gradient(nugget))
    jitter = nugget + jax.lax.stop_gradient(found.nugget - nugget)

    def multiply(v: Array) -> Array:
        return gram @ v + jitter * v

    # The derivative comes from the linear system, not through the search for a nugget.
    w = jax.lax.custom_linear_solve(
        multiply, z, lambda _, b: _solve(found.factor, b), symmetric=True
    )
    return Solution(w, z @ w, w @ (gram @ w), norm2, found.condition, found.nugget)


class _Factorisation(NamedTuple):
    """The Cholesky factor of C + nugget·1, and the condition of that matrix."""

    factor: Array
    nugget: Array
    condition: Array


def _factorise(gram: Array, nugget: Array) -> _Factorisation:
    """With the given nugget or the first larger one that leaves the matrix regular in doubles."""
    m = gram.shape[0]
    scale = jnp.trace(gram) / m
    norm = jnp.abs(gram).sum(0).max()

    def is_singular(found: _Factorisation) -> Array:
        regular = found.condition < LARGEST_CONDITION  # NaN is not
        return ~regular & (found.nugget < scale)

    def attempt(found: _Factorisation) -> _Factorisation:
        grown = jnp.maximum(10 * found.nugget, 1e-16 * scale)
        jitter = jnp.where(found.nugget < 0, nugget, grown)
        factor = jnp.linalg.cholesky(gram + jitter * jnp.eye(m))
        return _Factorisation(factor, jitter, (norm + jitter) * _inverse_norm(factor))

    untried = _Factorisation(jnp.zeros_like(gram), jnp.array(-1.0), jnp.array(jnp.inf))
    return jax.lax.while_loop(is_singular, attempt, untried)


def _solve(factor: Array, b: Array) -> Array:
    return jax.scipy.linalg.cho_solve((factor, True), b)


def _inverse_norm(factor: Array) -> Array:
    """The norm of the inverse by two steps of inverse iteration from a random vector."""
    start = np.random.default_rng(0).standard_normal(factor.shape[0])
    y = _solve(factor, jnp.asarray(start))
    return jnp.linalg.norm(_solve(factor, y / jnp.linalg.norm(y)))
