"""Covariances whatever the units of their coordinates, of which one may be 1e-6 and another 1e6."""

import numpy as np
from jaxtyping import Array, Float

from owlfi._tools.arrays import numpy_for

_ROUNDING = 1e-12  # that a sum over draws may leave of a direction in which they do not vary

Matrix = Float[Array | np.ndarray, "p p"]


def take_out_units(matrix: Matrix) -> tuple[Matrix, Float[Array | np.ndarray, " p"]]:
    """A semi-definite matrix in units of the roots of its diagonal, and these; 1 where it is 0.

    >>> take_out_units(np.array([[4e12, 1.0], [1.0, 1e-12]]))
    (array([[1. , 0.5],
           [0.5, 1. ]]), array([2.e+06, 1.e-06]))
    """
    xp = numpy_for(matrix)
    sizes = xp.diagonal(matrix)
    units = xp.sqrt(xp.where(sizes > 0, sizes, 1.0))
    return matrix / units[:, None] / units[None], units


def root_of(covariance: Float[np.ndarray, "p p"]) -> Float[np.ndarray, "p p"]:
    """Its lower triangular root, where draws do not vary in some direction, too."""
    alike, units = map(np.asarray, take_out_units(covariance))
    return units[:, None] * np.linalg.cholesky(alike + _ROUNDING * np.eye(len(units)))
