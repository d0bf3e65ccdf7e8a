"""What n observations leave open of their features, as it changes with theta.

A scale that grows makes its data scatter more, so that more of it is left open above than below.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

_LEAST = 1e-3  # of the variance near the data


class Noise(NamedTuple):
    """The covariance of features over samples of as many rows as the data have."""

    xi: Float[np.ndarray, "n p"]
    weights: Float[np.ndarray, " n"]
    """Of some draws of a cloud."""
    scatter: Float[np.ndarray, "n r r"]
    """The covariance at each of them."""
    design: Float[np.ndarray, " r"]
    """The variance that the choice of the design adds."""

    @property
    def mean(self) -> float:
        """Of the variances."""
        each = np.diagonal(self.scatter, axis1=1, axis2=2).mean(1) + self.design.mean()
        return float(self.weights @ each / self.weights.sum())

    def at(
        self, xi: Float[np.ndarray, "t p"], more: Float[np.ndarray, "... r"]
    ) -> Float[np.ndarray, "t r r"]:
        """At other ξ by the draws around it: a polynomial would run away among the last of them.

        more: variances to add.
        """
        worth = self.weights.sum() ** 2 / (self.weights**2).sum()
        width = worth ** (-1 / (xi.shape[1] + 4))  # Scott's rule, in spreads of the cloud
        from scipy.spatial.distance import cdist  # heavy

        apart = cdist(xi, self.xi, "sqeuclidean")
        near = self.weights * np.exp(-0.5 * (apart - apart.min(1, keepdims=True)) / width**2)
        r, flat = len(self.design), self.scatter.reshape(len(self.xi), -1)
        mixed = (near / near.sum(1, keepdims=True) @ flat).reshape(-1, r, r)
        return mixed + (self.design + more + _LEAST)[..., None] * np.eye(r)


class Gaps(NamedTuple):
    """Squared distances in units of a covariance, and the log determinant of that."""

    distance: Float[np.ndarray, " t"]
    size: Float[np.ndarray, " t"]


def measure_gaps(gaps: Float[np.ndarray, "t r"], covariances: Float[np.ndarray, "t r r"]) -> Gaps:
    """Of each gap by its covariance.

    >>> measure_gaps(np.array([[2.0, 0.0]]), np.diag([4.0, 1.0])[None]).distance
    array([1.])
    """
    roots = np.linalg.cholesky(covariances)
    solved = np.linalg.solve(roots, gaps[..., None])[..., 0]
    sizes = 2 * np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(1)
    return Gaps((solved**2).sum(1), sizes)
