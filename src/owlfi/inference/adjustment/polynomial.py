"""Features as polynomials of theta over the accepted draws, with what is left over."""

from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

_DRAWS_A_TERM = 2.5
_DEGREES = (3, 2, 1)
_STEP = 1e-4


class Polynomial(NamedTuple):
    """Of ξ, the places of the draws in units of their own spread."""

    degree: int
    slopes: Float[np.ndarray, "b q"]
    root: Float[np.ndarray, "b b"]
    """R of the weighted terms = QR."""
    left: Float[np.ndarray, " q"]
    """The variance that is left, of draws that are left out of the regression."""
    worth: float
    """How many equally weighted draws it is made of."""

    def at(self, xi: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n q"]:
        return terms(xi, self.degree) @ self.slopes

    def leverage(self, xi: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
        """How far ξ is from the draws, as the regression sees it."""
        return (np.linalg.solve(self.root.T, terms(xi, self.degree).T) ** 2).sum(0)

    def variance(self, xi: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n q"]:
        """Of what the regression gives at ξ."""
        return self.left * (1 + self.leverage(xi) / self.worth)[:, None]

    def slope(self, xi: Float[np.ndarray, " p"]) -> Float[np.ndarray, "p q"]:
        """By ξ."""
        return self.steps(xi) @ self.slopes

    def steps(self, xi: Float[np.ndarray, " p"]) -> Float[np.ndarray, "p b"]:
        """Of the terms, by ξ."""
        moves = _STEP * np.eye(len(xi))
        return (terms(xi + moves, self.degree) - terms(xi - moves, self.degree)) / (2 * _STEP)

    def combine(self, directions: Float[np.ndarray, "q r"], left: np.ndarray) -> "Polynomial":
        """Of combinations of the features."""
        return self._replace(slopes=self.slopes @ directions, left=left)


def terms(xi: Float[np.ndarray, "n p"], degree: int) -> Float[np.ndarray, "n b"]:
    """All products of at most so many coordinates.

    >>> terms(np.array([[2.0, 3.0]]), 2)
    array([[1., 2., 3., 4., 6., 9.]])
    """
    columns: dict[tuple[int, ...], np.ndarray] = {(): np.ones(len(xi))}
    for size in range(1, degree + 1):
        for chosen in combinations_with_replacement(range(xi.shape[1]), size):
            columns[chosen] = columns[chosen[:-1]] * xi[:, chosen[-1]]
    return np.stack(list(columns.values()), 1)


def count_terms(p: int, degree: int) -> int:
    """How many there are."""
    return terms(np.zeros((1, p)), degree).shape[1]


def draws_needed(p: int, degree: int = 1) -> int:
    """Equally weighted draws, below which there is no regression of this degree."""
    return int(np.ceil(_DRAWS_A_TERM * count_terms(p, degree)))


def degrees_for(p: int, worth: float) -> list[int]:
    """Those that draws worth so many equally weighted ones support."""
    return [degree for degree in _DEGREES if draws_needed(p, degree) <= worth]


def regress(
    xi: Float[np.ndarray, "n p"],
    features: Float[np.ndarray, "n q"],
    weights: Float[np.ndarray, " n"],
    degree: int,
) -> tuple[Polynomial, Float[np.ndarray, "n q"]]:
    """The polynomial, and what it leaves of each draw once that is left out of it."""
    each = np.sqrt(weights)[:, None]
    basis = terms(xi, degree)
    q, root = np.linalg.qr(each * basis)
    slopes = np.linalg.solve(root, q.T @ (each * features))
    influence = np.minimum((q**2).sum(1), 1 - 1e-6)
    left = (features - basis @ slopes) / (1 - influence)[:, None]
    worth = float(1 / np.sum(weights**2))
    return Polynomial(degree, slopes, root, weights @ left**2, worth), left
