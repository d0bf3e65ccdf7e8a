"""Fast weights where points and kernel fit together: lattices by FFT, grids by Kronecker."""

from collections.abc import Sequence
from functools import reduce
from math import prod
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from owlfi.embeddings.embed import embed
from owlfi.kernels import CoordinateKernel, Kernel, Korobov, ScaledKernel
from owlfi.measures import Family, Measure, Uniform, coordinate, parts_of

LARGEST_CONDITION = float(1 / np.finfo(float).eps)  # beyond, a matrix is singular in doubles


class Solution(NamedTuple):
    """Weights and the parts of their worst-case error."""

    weights: Float[Array, "... m"]
    cross: Float[Array, "..."]  # wᵀz
    own: Float[Array, "..."]  # wᵀCw
    norm2: Float[Array, "..."]
    condition: Float[Array, "..."]
    nugget: Float[Array, "..."]


def solve_lattice(
    base_kernel: Kernel, measure: Measure, u: Float[Array, "m s"], nugget: Array
) -> Solution | None:
    """Weights on a rank-1 lattice: its Gram matrix is circulant, so the FFT diagonalises it."""
    periodic = base_kernel.kernel if isinstance(base_kernel, ScaledKernel) else base_kernel
    if not (isinstance(periodic, Korobov) and isinstance(measure, Uniform)):
        return None
    if not _is_lattice(np.asarray(u) / np.asarray(periodic.period)):
        return None
    embedding = embed(base_kernel, measure)
    z = embedding.mean(u)
    first_column = base_kernel.gram(u, u[:1])[:, 0]
    spectrum = jnp.fft.rfft(first_column)
    jitter = _grow_nugget(np.asarray(spectrum.real), float(nugget), float(first_column[0]))
    eigenvalues = spectrum.real + jitter
    w = jnp.fft.irfft(jnp.fft.rfft(z) / eigenvalues, u.shape[0])
    own = w @ jnp.fft.irfft(jnp.fft.rfft(w) * spectrum, u.shape[0])
    condition = eigenvalues.max() / eigenvalues.min()
    return Solution(w, w @ z, own, embedding.norm2, condition, jnp.asarray(jitter, float))


def _grow_nugget(spectrum: np.ndarray, nugget: float, scale: float) -> float:
    """The nugget, or the first larger one that leaves the matrix regular in doubles."""
    low, high = spectrum.min(), spectrum.max()
    while not high + nugget < LARGEST_CONDITION * (low + nugget) and nugget < scale:
        nugget = max(10 * nugget, 1e-16 * scale)
    return nugget


def _is_lattice(phases: np.ndarray) -> bool:
    """Whether row i is row 0 plus i steps of a fixed multiple of 1/m, modulo 1."""
    m = len(phases)
    steps = (phases - phases[0]) * m
    whole = np.round(steps)
    if np.abs(steps - whole).max() > 1e-6:
        return False
    return bool(((whole - np.arange(m)[:, None] * whole[1 % m]) % m == 0).all())


def solve_grid(
    base_kernel: Kernel, measure: Measure, u: Float[Array, "m s"], nugget: Array
) -> Solution | None:
    """Weights on a tensor grid: with C a Kronecker product, so are its eigenvectors Q.

    C + nugget·1 = Q (Λ + nugget·1) Qᵀ is inverted one axis at a time, so that the nugget need not
    grow as long as every axis is regular: C itself may have a far larger condition number.
    """
    if not (isinstance(base_kernel, CoordinateKernel) and base_kernel.separable(measure.dim)):
        return None
    if not all(isinstance(part, Family) for part in parts_of(measure)):
        return None
    axes = _find_grid_axes(np.asarray(u))
    if axes is None:
        return None
    problems = [
        _pose_on_axis(base_kernel.restrict(slice(j, j + 1)), coordinate(measure, j), axis[:, None])
        for j, axis in enumerate(axes)
    ]
    grams, means, norms2 = zip(*problems, strict=True)
    values, vectors = zip(*map(np.linalg.eigh, grams), strict=True)
    spectrum = _outer([v.clip(0) for v in values])  # below 0 is rounding
    jitter = float(nugget)
    if not all(v.max() < LARGEST_CONDITION * v.min() for v in values):
        jitter = _grow_nugget(spectrum, jitter, float(spectrum.mean()))
    eigenvalues = spectrum + jitter
    z = _outer([mean @ q for mean, q in zip(means, vectors, strict=True)])  # in the basis Q
    w = z / eigenvalues
    cross, own = np.vdot(z, w), np.vdot(w, spectrum * w)
    # Without a nugget the axes separate, and elimination loses fewer digits.
    weights = _apply(vectors, w) if jitter else _outer(list(map(np.linalg.solve, grams, means)))
    condition = eigenvalues.max() / eigenvalues.min()
    numbers = (weights.ravel(), cross, own, prod(norms2), condition, jitter)
    return Solution(*(jnp.asarray(number, float) for number in numbers))


def _pose_on_axis(
    base_kernel: CoordinateKernel, measure: Measure, u: Float[Array, "n 1"]
) -> tuple[np.ndarray, np.ndarray, Array]:
    """C, z and the squared norm of the embedding, along one coordinate."""
    embedding = embed(base_kernel, measure)
    return np.asarray(base_kernel.gram(u, u)), np.asarray(embedding.mean(u)), embedding.norm2


def _outer(vectors: Sequence[np.ndarray]) -> np.ndarray:
    return reduce(np.multiply.outer, vectors)


def _apply(matrices: Sequence[np.ndarray], tensor: np.ndarray) -> np.ndarray:
    """The Kronecker product of matrices, one for each axis of the tensor, times the tensor."""
    for matrix in matrices:  # each takes the first axis and puts its result last
        tensor = np.tensordot(tensor, matrix, axes=(0, 1))
    return tensor


def _find_grid_axes(u: np.ndarray) -> list[Array] | None:
    """The axes of a full grid whose last coordinate runs fastest, or None."""
    firsts = [np.sort(np.unique(column, return_index=True)[1]) for column in u.T]
    axes = [column[index] for column, index in zip(u.T, firsts, strict=True)]
    if u.shape[1] == 1 or prod(len(axis) for axis in axes) != len(u):
        return None
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(u.shape)
    return [jnp.asarray(axis) for axis in axes] if np.array_equal(grid, u) else None
