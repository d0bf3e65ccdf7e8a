"""Increments of Brownian motion, in coordinates of which the first move the whole path."""

from typing import Any

import numpy as np

from owlfi._tools.arrays import as_jax
from owlfi._tools.checks import as_count
from owlfi.measures.normal import Normal
from owlfi.measures.rotated import Rotated
from owlfi.measures.rotation import rotation_to

_DIRECTIONS = 20
_MOST = 10**6  # columns of u


def brownian(steps: Any, dim: Any = 1) -> Rotated:
    """Standard normal increments of paths of so many steps, by their principal components.

    steps: how many increments each path has.
    dim: how many independent paths there are; u has steps · dim columns, those of one step side by
        side, so that u.reshape(m, steps, dim) are the increments.

    The law is that of `Normal(dim=steps * dim)`; points of the unit cube first say how the path
    moves as a whole. Where simulations follow the path otherwise, `learn_coordinates` finds better
    directions.

    Raises ValueError for counts that are not whole positive numbers, or beyond a million columns.

    >>> import jax, owlfi
    >>> u = owlfi.sobol(jax.random.key(0), 8, brownian(100, dim=2))
    >>> u.reshape(8, 100, 2).cumsum(1).shape
    (8, 100, 2)
    """
    n = as_count("steps", steps, most=_MOST)
    paths = as_count("dim", dim, most=_MOST // n)
    count = min(n, -(-_DIRECTIONS // paths))
    # The path is L u, L lower triangular of ones; these are the eigenvectors of LᵀL.
    angles = (np.arange(count) + 0.5) * np.pi / (n + 0.5)
    vectors = np.cos((np.arange(n) + 0.5)[:, None] * angles)
    vectors /= np.linalg.norm(vectors, axis=0)
    variances = np.repeat(0.25 / np.sin(angles / 2) ** 2, paths)
    total = paths * n * (n + 1) / 2  # the trace
    rotation = rotation_to(np.kron(vectors, np.eye(paths)))
    return Rotated(Normal(dim=n * paths), rotation, as_jax(variances / total))
