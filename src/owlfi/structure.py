"""Fast weights where points and kernel fit together: lattices by FFT, grids by Kronecker."""

from collections.abc import Callable
from functools import reduce
from math import prod
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from owlfi.embeddings import embed
from owlfi.kernels import CoordinateKernel, Kernel, Korobov, ScaledKernel
from owlfi.measures import Family, Measure, Product, Uniform, coordinate

LARGEST_CONDITION = float(1 / np.finfo(float).eps)  # beyond, a matrix is singular in doubles


class Solution(NamedTuple):
    """Weights and the parts of their worst-case error."""

    weights: Float[Array, "... m"]
    cross: Float[Array, "..."]  # wᵀz
    own: Float[Array, "..."]  # wᵀCw
    norm2: Float[Array, "..."]
    condition: Float[Array, "..."]
    nugget: Float[Array, "..."]


Solver = Callable[[Kernel, Measure, Array, Array], Solution]


def solve_lattice(
    kernel: Kernel, measure: Measure, u: Float[Array, "m s"], nugget: Array, _: Solver
) -> Solution | None:
    """Weights on a rank-1 lattice: its Gram matrix is circulant, so the FFT diagonalises it."""
    periodic = kernel.kernel if isinstance(kernel, ScaledKernel) else kernel
    if not (isinstance(periodic, Korobov) and isinstance(measure, Uniform)):
        return None
    if not _is_lattice(np.asarray(u / periodic.period)):
        return None
    embedding = embed(kernel, measure)
    z = embedding.mean(u)
    first_column = kernel.gram(u, u[:1])[:, 0]
    spectrum = jnp.fft.rfft(first_column)
    while not _regular(eigenvalues := spectrum.real + nugget) and nugget < first_column[0]:
        nugget = jnp.maximum(10 * nugget, 1e-16 * first_column[0])
    w = jnp.fft.irfft(jnp.fft.rfft(z) / eigenvalues, u.shape[0])
    own = w @ jnp.fft.irfft(jnp.fft.rfft(w) * spectrum, u.shape[0])
    condition = eigenvalues.max() / eigenvalues.min()
    return Solution(w, w @ z, own, embedding.norm2, condition, nugget)


def _regular(eigenvalues: Array) -> bool:
    return bool(eigenvalues.max() < LARGEST_CONDITION * eigenvalues.min())


def _is_lattice(phases: np.ndarray) -> bool:
    """Whether row i is row 0 plus i steps of a fixed multiple of 1/m, modulo 1."""
    m = len(phases)
    steps = (phases - phases[0]) * m
    whole = np.round(steps)
    if np.abs(steps - whole).max() > 1e-6:
        return False
    return bool(((whole - np.arange(m)[:, None] * whole[1 % m]) % m == 0).all())


def solve_grid(
    kernel: Kernel, measure: Measure, u: Float[Array, "m s"], nugget: Array, solve: Solver
) -> Solution | None:
    """Weights on a tensor grid: Gram matrix, embedding and weights are Kronecker products."""
    if not (isinstance(kernel, CoordinateKernel) and kernel.separable(measure.dim)):
        return None
    parts = measure.parts if isinstance(measure, Product) else (measure,)
    if not all(isinstance(part, Family) for part in parts):
        return None
    axes = _grid_axes(np.asarray(u))
    if axes is None:
        return None
    solutions = [
        solve(kernel.restrict(slice(j, j + 1)), coordinate(measure, j), axis[:, None], nugget)
        for j, axis in enumerate(axes)
    ]
    weights = reduce(lambda a, b: jnp.outer(a, b).ravel(), (part.weights for part in solutions))
    cross, own, norm2, condition = (
        prod(getattr(part, name) for part in solutions)
        for name in ("cross", "own", "norm2", "condition")
    )
    nugget = jnp.stack([part.nugget for part in solutions]).max()
    return Solution(weights, cross, own, norm2, condition, nugget)


def _grid_axes(u: np.ndarray) -> list[Array] | None:
    """The axes of a full grid whose last coordinate runs fastest, or None."""
    firsts = [np.sort(np.unique(column, return_index=True)[1]) for column in u.T]
    axes = [column[index] for column, index in zip(u.T, firsts, strict=True)]
    if u.shape[1] == 1 or prod(len(axis) for axis in axes) != len(u):
        return None
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(u.shape)
    return [jnp.asarray(axis) for axis in axes] if np.array_equal(grid, u) else None
