"""Kernels on data whose columns are correlated or have different scales."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from owlfi._tools.checks import as_covariance, as_rows, positive
from owlfi.kernels import Kernel, SquaredExponential
from owlfi.kernels.base import ImageKernel
from owlfi.kernels.median_heuristic import median_heuristic


class Transformed(ImageKernel):
    """k(A x, A y) for a matrix A.

    >>> doubled = Transformed(SquaredExponential(1.0), 2 * jnp.eye(1))
    >>> doubled([0.0], [1.0]) == SquaredExponential(0.5)([0.0], [1.0])
    Array(True, dtype=bool)
    """

    kernel: Kernel
    matrix: Float[Array, "e d"]

    def image(self, rows: Array) -> Array:
        if rows.shape[-1] != self.matrix.shape[1]:
            raise ValueError(
                f"the kernel is one of {self.matrix.shape[1]} columns, where the rows have "
                f"{rows.shape[-1]}; make it from data like these"
            )
        return rows @ self.matrix.T


def whitening_kernel(observed: Any, scale: float = 1.0, covariance: Any = None) -> Transformed:
    """A squared exponential of the data in coordinates where their covariance is the identity.

    observed: (n, d), with n > d rows that span all columns.
    scale: of the lengthscale, in units of the median heuristic there.
    covariance: (d, d), that of the observations where left out. One from a model is better known
        than that of few observations, and does not depend on them.

    Differences in directions of small variance count as much as any. For the covariance of normal
    data and a large scale, minimising the MMD is then as good as maximum likelihood.

    Raises ValueError where a column depends linearly on the others.

    >>> x = np.random.default_rng(0).normal(size=(50, 2))
    >>> same = whitening_kernel(x * [1.0, 1000.0]).gram(x * [1.0, 1000.0], x * [1.0, 1000.0])
    >>> bool(jnp.allclose(same, whitening_kernel(x).gram(x, x)))
    True
    """
    x = np.asarray(as_rows("observed", observed))
    factor = positive("scale", scale, number=True)
    if covariance is None:
        covariance = np.atleast_2d(np.cov(x.T))
    else:
        covariance = np.asarray(as_covariance(covariance, x.shape[1]))
    units = np.sqrt(np.maximum(np.diagonal(covariance), np.finfo(float).tiny))
    correlation = covariance / units[:, None] / units
    if np.linalg.matrix_rank(correlation, hermitian=True) < x.shape[1]:
        raise ValueError(
            f"observed (shape {x.shape}) has columns that depend linearly on others, or its "
            "covariance is not positive definite; leave some columns out"
        )
    matrix = np.linalg.inv(np.linalg.cholesky(correlation)) / units
    lengthscale = factor * median_heuristic(x @ matrix.T, name="observed")
    return Transformed(SquaredExponential(lengthscale), jnp.asarray(matrix))
