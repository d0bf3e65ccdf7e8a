"""Rotations of many coordinates that are told by few: products of Householder reflections."""

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float
from scipy.linalg import qr

from owlfi._tools.arrays import as_jax, numpy_for


class Rotation(eqx.Module):
    """An orthogonal matrix Q of n coordinates whose first r columns are given directions.

    It is the product of r reflections, kept as Q = 1 - V T Vᵀ, so that applying it to a point costs
    O(n r); no n x n matrix is ever made.

    >>> turned = rotation_to(np.array([[3.0], [4.0]]))
    >>> np.abs(turned.directions.round(3)).ravel()
    array([0.6, 0.8])
    """

    reflectors: Float[Array, "n r"]
    """V: the vectors that are reflected at."""
    triangle: Float[Array, "r r"]
    """T: upper triangular."""

    @property
    def rank(self) -> int:
        """How many directions are told."""
        return self.reflectors.shape[1]

    @property
    def directions(self) -> Float[np.ndarray, "n r"]:
        """The first r columns of Q, orthonormal."""
        return np.asarray(self.turn(np.eye(self.rank, len(self.reflectors)))).T

    def turn(self, v: Any) -> Any:
        """Q v of each row v (..., n)."""
        return self._reflect(v, self.triangle.T)

    def turn_back(self, z: Any) -> Any:
        """Qᵀ z of each row z (..., n): its first r entries are those along the directions."""
        return self._reflect(z, self.triangle)

    def _reflect(self, rows: Any, triangle: Array) -> Any:
        numpy = numpy_for(rows, self)
        vectors, small = numpy.asarray(self.reflectors), numpy.asarray(triangle)
        return rows - (rows @ vectors) @ small @ vectors.T


def rotation_to(directions: Float[np.ndarray, "n r"]) -> Rotation:
    """The rotation whose leading columns span what linearly independent directions do.

    Where these are orthonormal, they are its leading columns, up to their signs.
    """
    (packed, scales), _ = qr(np.asarray(directions, float), mode="raw")
    vectors = np.tril(packed[:, : len(scales)], -1)
    np.fill_diagonal(vectors, 1.0)
    triangle = np.zeros((len(scales), len(scales)))
    for j, scale in enumerate(scales):  # of Q_j = Q_(j-1) (1 - scale v vᵀ)
        triangle[:j, j] = -scale * triangle[:j, :j] @ (vectors[:, :j].T @ vectors[:, j])
        triangle[j, j] = scale
    return Rotation(as_jax(vectors), as_jax(triangle))
