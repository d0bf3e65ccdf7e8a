"""Gaussian processes over the unit cube: what a few runs say of a function everywhere else.

One for each of several outputs, Matérn 5/2 with a lengthscale for each coordinate and a nugget for
what is no smooth function, all by marginal likelihood.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Float

from owlfi._tools.bfgs import minimise
from owlfi._tools.checks import as_rows
from owlfi._tools.programs import compile_quickly
from owlfi.kernels import Matern

_LOG_LENGTHSCALE = (np.log(0.01), np.log(10.0))
_LOG_NUGGET = (np.log(1e-9), np.log(10.0))
_STARTS = (0.1, 0.5)  # lengthscales, of which the likelier end is taken
_START_NUGGET = 1e-3
_SMALLEST = 128
_MOST_FITTED = 512  # points for the lengthscales; all of them predict


class Surrogate(eqx.Module):
    """Outputs (t, q) at points (t, p) of the unit cube, and how each output varies.

    >>> v = np.linspace(0, 1, 12)[:, None]
    >>> surrogate = fit_surrogate(v, np.sin(6 * v))
    >>> mean, sd = surrogate.predict(np.array([[0.4]]))
    >>> bool(abs(mean[0, 0] - np.sin(2.4)) < 0.01), sd.shape
    (True, (1, 1))
    """

    points: Float[Array, "t p"]
    values: Float[Array, "t q"]
    lengthscales: Float[Array, "q p"]
    nuggets: Float[Array, " q"]
    """In units of the variance of the process."""

    def predict(self, v: Any) -> tuple[Float[Array, "c q"], Float[Array, "c q"]]:
        """The mean and the standard deviation of a new run at points v (c, p), nugget included."""
        new = as_rows("v", v, self.points.shape[1])
        v, columns, mask = _pad(self.points, self.values)
        outputs = zip(columns, self.lengthscales, self.nuggets, strict=True)
        both = [_predict_output(v, f, mask, scale, nugget, new) for f, scale, nugget in outputs]
        return jnp.stack([mean for mean, _ in both], 1), jnp.stack([sd for _, sd in both], 1)


def fit_surrogate(points: Any, values: Any) -> Surrogate:
    """The surrogate of outputs (t, q) at points (t, p) of the unit cube.

    Raises ValueError for values that are not finite, and rows that do not fit the points.
    """
    v, f = as_rows("points", points), as_rows("values", values)
    if len(v) != len(f):
        raise ValueError(f"values must have a row for each of the {len(v)} points, got {f.shape}")
    some = np.linspace(0, len(v) - 1, min(len(v), _MOST_FITTED)).astype(int)
    padded, columns, mask = _pad(v[some], f[some])
    fits = [_fit_output(padded, values, mask) for values in columns]
    return Surrogate(v, f, *(jnp.stack(column) for column in zip(*fits, strict=True)))


def _pad(v: Array, f: Array) -> tuple[Array, Array, Array]:
    """Points, outputs and a mask at a power of two of rows, so that growth compiles seldom."""
    t = len(v)
    more = max(_SMALLEST, 1 << (t - 1).bit_length()) - t
    return (
        jnp.pad(v, ((0, more), (0, 0))),
        jnp.pad(f, ((0, more), (0, 0))).T,
        jnp.pad(jnp.ones(t), (0, more)),
    )


@compile_quickly
def _fit_output(v: Array, values: Array, mask: Array) -> tuple[Array, Array]:
    """The likeliest lengthscales and nugget of one output."""
    p = v.shape[1]

    def loss(x: Array) -> Array:
        return _negative_likelihood(v, values, mask, *_parameters(x, p))

    nugget = _unsquash(np.log(_START_NUGGET), _LOG_NUGGET)
    starts = [_unsquash(np.log(scale), _LOG_LENGTHSCALE) for scale in _STARTS]
    first = jnp.array([[*[start] * p, nugget] for start in starts])
    ends = jax.lax.map(lambda x: minimise(loss, x, trials=60, tolerance=1e-3), first)
    return _parameters(ends[jnp.nanargmin(jax.lax.map(loss, ends))], p)


def _parameters(x: Array, p: int) -> tuple[Array, Array]:
    return jnp.exp(_squash(x[:p], _LOG_LENGTHSCALE)), jnp.exp(_squash(x[p], _LOG_NUGGET))


def _squash(x: Array, ends: tuple[float, float]) -> Array:
    return 0.5 * (ends[0] + ends[1] + (ends[1] - ends[0]) * jnp.tanh(x))


def _unsquash(value: float, ends: tuple[float, float]) -> float:
    return float(np.arctanh((2 * value - ends[0] - ends[1]) / (ends[1] - ends[0])))


def _factor(v: Array, mask: Array, lengthscale: Array, nugget: Array) -> Array:
    """The Cholesky factor of the correlations; rows of padding are those of the identity."""
    gram = Matern(nu=2.5, lengthscale=lengthscale).gram(v, v) * mask[:, None] * mask[None]
    return jnp.linalg.cholesky(gram + jnp.diag(nugget * mask + 1 - mask))


def _regression(factor: Array, values: Array, mask: Array) -> tuple[Array, Array, Array]:
    """The constant mean by least squares, K⁻¹ (f - mean), and the variance of the process."""
    solved = cho_solve((factor, True), jnp.stack([mask, values], 1))
    mean = (mask @ solved[:, 1]) / (mask @ solved[:, 0])
    alpha = solved[:, 1] - mean * solved[:, 0]
    variance = (values - mean * mask) @ alpha / mask.sum()
    return mean, alpha, jnp.maximum(variance, np.finfo(float).tiny)


def _negative_likelihood(
    v: Array, values: Array, mask: Array, lengthscale: Array, nugget: Array
) -> Array:
    """Twice that of a Gaussian, mean and variance profiled out."""
    factor = _factor(v, mask, lengthscale, nugget)
    _, _, variance = _regression(factor, values, mask)
    return mask.sum() * jnp.log(variance) + 2 * jnp.log(jnp.diagonal(factor)).sum()


@compile_quickly
def _predict_output(
    v: Array, values: Array, mask: Array, lengthscale: Array, nugget: Array, new: Array
) -> tuple[Array, Array]:
    factor = _factor(v, mask, lengthscale, nugget)
    mean, alpha, variance = _regression(factor, values, mask)
    cross = Matern(nu=2.5, lengthscale=lengthscale).gram(v, new) * mask[:, None]
    known = (solve_triangular(factor, cross, lower=True) ** 2).sum(0)
    return mean + alpha @ cross, jnp.sqrt(variance * (1 + nugget - known).clip(0))
