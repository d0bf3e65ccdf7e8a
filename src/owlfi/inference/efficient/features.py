"""What is compared of data: kernels at anchors, and how the model's embedding moves with theta.

f(x) = (k_l(z, x) at simulated anchors z; μ_l(x) and ∂_a μ_l(x) for each parameter a), for squared
exponentials k_l in the coordinates where the model is normal and uncorrelated. The ∂_a μ are the
functions that plain MMD compares, so that a fit to all features is no worse; at large lengthscales
they are the scores of normal data, whatever their dimension.
"""

from math import sqrt
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from owlfi._tools.arrays import as_jax
from owlfi._tools.programs import compile_quickly
from owlfi.inference.search.whitening import Whitening, fit_whitening
from owlfi.kernels.spread import typical_distance

SCALES = (sqrt(2), 2 * sqrt(2), 4 * sqrt(2))
"""Lengthscales in units of the median heuristic."""
_ANCHORS = 64
_CENTRES = 256
_BLOCK = 256  # rows at a time
_LEAST = 1e-300
_STEEP = 8.0  # of the fading, in units of the log


class Features(eqx.Module):
    """f: from rows (n, d) to (n, q), all of them bounded, and 0 far from the model."""

    whitening: Whitening
    anchors: Float[Array, "a d"]
    centres: Float[Array, "m d"]
    slopes: Float[Array, "p m d"]
    """How the centres move with each parameter."""
    lengthscales: Float[Array, " l"]
    limit: Float[Array, ""]
    """The distance from the model beyond which features fade to 0; infinite where none do."""

    def __call__(self, rows: Float[Array, "n d"]) -> tuple[Float[Array, "n q"], Float[Array, " n"]]:
        """The features of each row, and its distance from the model.

        The distance is -log of the kernel mean at the smallest lengthscale.
        """
        x = self.whitening(rows)
        to_centres = _square_distances(x, self.centres)
        to_anchors = _square_distances(x, self.anchors)
        moved = jnp.einsum("nd,pmd->pnm", x, self.slopes)
        moved = moved - (self.slopes * self.centres[None]).sum(2)[:, None]
        columns = []
        for l2 in self.lengthscales**2:
            near = jnp.exp(-0.5 * to_centres / l2)
            columns += [near.mean(1)[:, None], (near[None] * moved).mean(2).T / l2]
        columns += [jnp.exp(-0.5 * to_anchors / l2) for l2 in self.lengthscales**2]
        found = jnp.concatenate(columns, 1)
        distances = -jnp.log(jnp.maximum(found[:, 0], _LEAST))
        return found * jax.nn.sigmoid(_STEEP * (self.limit - distances))[:, None], distances

    def fade(self, limit: float) -> "Features":
        """The same for rows within a distance from the model."""
        return eqx.tree_at(lambda f: f.limit, self, as_jax(np.float64(limit)))

    @property
    def shared(self) -> int:
        """How many columns there are before those of the anchors."""
        return len(self.lengthscales) * (1 + len(self.slopes))

    def choose(self, scale: int) -> np.ndarray:
        """The columns with the anchors of one lengthscale."""
        first = self.shared + scale * len(self.anchors)
        return np.r_[: self.shared, first : first + len(self.anchors)]


def _square_distances(x: Float[Array, "n d"], y: Float[Array, "m d"]) -> Float[Array, "n m"]:
    """By a product of matrices: what cancels is far below a lengthscale."""
    squares = (x**2).sum(1)[:, None] + (y**2).sum(1)[None] - 2 * x @ y.T
    return jnp.maximum(squares, 0.0)


def make_features(
    rows: Float[Array, "m d"], slopes: Float[Array, "p m d"], observed: Float[Array, "n d"]
) -> Features:
    """From simulations at an estimate, and how they move with theta."""
    y = np.asarray(rows)[:_CENTRES]
    whitening = fit_whitening(np.asarray(rows), observed)
    centres, moved = _move(whitening, as_jax(y), as_jax(np.asarray(slopes)[:, :_CENTRES]))
    unit = float(typical_distance(centres, name="simulations at the estimate"))
    lengthscales = jnp.asarray(unit * np.array(SCALES))
    none = as_jax(np.float64(np.inf))
    return Features(whitening, centres[:_ANCHORS], centres, moved, lengthscales, none)


@compile_quickly
def _move(whitening: Whitening, y: Array, slopes: Array) -> tuple[Array, Array]:
    centres, along = jax.linearize(whitening, y)
    return centres, jax.lax.map(along, slopes)


class Summed(eqx.Module):
    """What is known of some rows by their features."""

    mean: Float[Array, " q"]
    covariance: Float[Array, "q q"]
    distances: Float[Array, " n"]
    """Of each row from the model."""


@compile_quickly
def sum_features(
    features: Features, rows: Float[Array, "n d"], shares: Float[Array, " n"]
) -> Summed:
    """Weighted mean and covariance, block by block: memory does not grow with the rows."""

    def add(sums: tuple[Array, Array], block: tuple[Array, Array]) -> tuple[Any, Array]:
        found, far = features(block[0])
        weighted = found * block[1][:, None]
        return (sums[0] + weighted.sum(0), sums[1] + weighted.T @ found), far

    q = jax.eval_shape(features, rows[:1])[0].shape[1]
    blocks = _cut(rows), _cut(shares, fill=0.0)
    (mean, second), far = jax.lax.scan(add, (jnp.zeros(q), jnp.zeros((q, q))), blocks)
    return Summed(mean, second - mean[:, None] * mean[None], far.reshape(-1)[: len(rows)])


@compile_quickly
def mean_features(
    features: Features, rows: Float[Array, "n d"], shares: Float[Array, "b n"]
) -> Float[Array, "b q"]:
    """The mean for each weighting of the rows, block by block."""

    def add(sums: Array, block: tuple[Array, Array]) -> tuple[Array, None]:
        return sums + block[1].T @ features(block[0])[0], None

    q = jax.eval_shape(features, rows[:1])[0].shape[1]
    blocks = _cut(rows), _cut(shares.T, fill=0.0)
    return jax.lax.scan(add, jnp.zeros((len(shares), q)), blocks)[0]


@compile_quickly
def weigh_features(
    features: Features, rows: Float[Array, "n d"], weighting: Float[Array, "p q"]
) -> Float[Array, "p n"]:
    """B f(x) of each row, block by block."""
    found = jax.lax.map(lambda block: features(block)[0] @ weighting.T, _cut(rows))
    return found.reshape(-1, len(weighting))[: len(rows)].T


def _cut(rows: Float[Array, "n ..."], fill: float | None = None) -> Float[Array, "b s ..."]:
    """Blocks of rows, the last one filled with copies of the first row, or a number."""
    spare = -len(rows) % _BLOCK
    rest = jnp.broadcast_to(rows[:1] if fill is None else fill, (spare, *rows.shape[1:]))
    return jnp.concatenate([rows, rest]).reshape(-1, _BLOCK, *rows.shape[1:])
