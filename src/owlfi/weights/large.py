"""Weights of one large design by LAPACK in place.

XLA copies the matrix before it factorises it, and the factor before each solve: as much time again.
"""

from collections.abc import Iterator
from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from owlfi._tools.arrays import as_jax
from owlfi.kernels import Kernel
from owlfi.weights.structured import LARGEST_CONDITION, Solution

LARGE = 1024
"""Points from which on this is faster than a program of XLA."""


def solve_large(
    base_kernel: Kernel, u: Float[Array, "m s"], z: Float[Array, " m"], norm2: Array, nugget: Array
) -> Solution:
    """Weights (C + nugget·1)⁻¹ z, with the first larger nugget that leaves the matrix regular."""
    means, gram = np.asarray(z), np.asarray(_compute_gram(base_kernel, u))
    for jitter in _grow(float(nugget), np.trace(gram) / len(gram)):
        found = _factorise(gram, jitter)
        if found.condition < LARGEST_CONDITION:
            break
    w = found.solve(means)
    numbers = (w, w @ means, w @ (gram @ w), norm2, found.condition, jitter)
    return Solution(*(as_jax(np.asarray(number, float)) for number in numbers))


@eqx.filter_jit
def _compute_gram(base_kernel: Kernel, u: Array) -> Array:
    return base_kernel.gram(u, u)


def _grow(nugget: float, scale: float) -> Iterator[float]:
    """The nugget, and ten times the last up to the scale of the matrix."""
    yield nugget
    while nugget < scale:
        nugget = max(10 * nugget, 1e-16 * scale)
        yield nugget


class _Factor(NamedTuple):
    """The Cholesky factor of C + nugget·1, and the condition of that matrix."""

    factor: Float[np.ndarray, "m m"]
    condition: float

    def solve(self, b: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
        from scipy.linalg import cho_solve

        return cho_solve((self.factor, True), b, check_finite=False)


def _factorise(gram: Float[np.ndarray, "m m"], jitter: float) -> _Factor:
    """An infinite condition where the matrix is not positive definite."""
    from scipy.linalg import LinAlgError, cho_factor
    from scipy.linalg.lapack import dlange

    matrix = gram.copy()
    matrix.flat[:: len(matrix) + 1] += jitter
    norm = dlange("1", matrix.T)
    try:  # symmetric, so that its transpose is what LAPACK overwrites
        factor, _ = cho_factor(matrix.T, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return _Factor(np.full_like(gram, np.nan), np.inf)
    found = _Factor(factor, np.inf)
    return found._replace(condition=norm * _inverse_norm(found))


def _inverse_norm(found: _Factor) -> float:
    """The norm of the inverse by two steps of inverse iteration from a random vector."""
    y = found.solve(np.random.default_rng(0).standard_normal(len(found.factor)))
    return float(np.linalg.norm(found.solve(y / np.linalg.norm(y))))
