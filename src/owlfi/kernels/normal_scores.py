"""Data column by column on the scale where a sample of them is normal, and kernels there."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import ndtr

from owlfi._tools.arrays import as_jax
from owlfi.kernels.base import ImageKernel, Kernel

_LEVELS = np.linspace(-2.0, 2.0, 9)  # normal quantiles that small samples know, too
_NOISY = 2.0  # as the line has its error, too


class NormalScores(eqx.Module):
    """The increasing, smooth function of each column that makes a sample nearly standard normal.

    It is cubic between the knots, and linear beyond the outermost.
    """

    knots: Float[Array, "r d"]
    """Where the scores are those of nine normal quantiles."""

    def __call__(self, rows: Float[Array, "n d"]) -> Float[Array, "n d"]:
        slopes = _choose_slopes(self.knots)
        return jax.vmap(_interpolate, (1, 1, 1), 1)(rows, self.knots, slopes)


def fit_scores(sample: Float[np.ndarray, "n d"], units: Float[np.ndarray, " d"]) -> NormalScores:
    """Of the columns of a sample with these spreads; linear for columns with ties.

    The knots lie between the quantiles of the sample and a straight line: as much of their
    difference is taken back as chance would give. So normal columns have a line.

    >>> skewed = np.exp(np.random.default_rng(0).normal(size=(500, 1)))
    >>> scores = fit_scores(skewed, np.ones(1))
    >>> scores(jnp.exp(jnp.array([[-1.0], [0.0], [1.2]]))).round(1)
    Array([[-1. ],
           [ 0. ],
           [ 1.2]], dtype=float64)
    """
    quantiles = np.quantile(sample, ndtr(_LEVELS), axis=0)
    line = np.median(sample, axis=0) + _LEVELS[:, None] * units
    tied = (np.diff(quantiles, axis=0) <= 0).any(0)
    bends = np.where(tied, 0.0, (quantiles - line) / units)
    chance = _NOISY * _quantile_variances(len(sample)).sum()
    kept = 1 - np.minimum(1.0, chance / np.maximum((bends**2).sum(0), chance))
    return NormalScores(as_jax(line + kept * bends * units))


def _quantile_variances(n: int) -> np.ndarray:
    """p (1 - p) / (n density²), of standard normal samples."""
    p = ndtr(_LEVELS)
    return 2 * np.pi * np.exp(_LEVELS**2) * p * (1 - p) / n


class Mapped(ImageKernel):
    """k(f(x), f(y)) for a function f of rows that JAX can trace.

    >>> from owlfi.kernels import SquaredExponential
    >>> ratios = Mapped(SquaredExponential(1.0), jnp.log2)
    >>> float(ratios([1.0], [4.0]).round(3)), float(ratios([3.0], [12.0]).round(3))
    (0.135, 0.135)
    """

    kernel: Kernel
    function: Callable[[Array], Array]

    def image(self, rows: Array) -> Array:
        return self.function(rows)

    def gaussian_coordinates(self) -> None:
        return None  # it is not linear

    def distance_coordinates(self) -> None:
        return None  # as `mapped` tells more

    def mapped(self) -> tuple[Callable[[Array], Array], Kernel]:
        return self.function, self.kernel

    def stretch(self, factor: Any) -> "Mapped":
        return Mapped(self.kernel.stretch(factor), self.function)


def _choose_slopes(knots: Float[Array, "r d"]) -> Float[Array, "r d"]:
    """At the knots of a cubic that increases between them: harmonic means of neighbouring ones."""
    secants = jnp.diff(jnp.asarray(_LEVELS))[:, None] / jnp.diff(knots, axis=0)
    inner = 2 / (1 / secants[1:] + 1 / secants[:-1])
    return jnp.concatenate([secants[:1], inner, secants[-1:]])


def _interpolate(
    column: Float[Array, " n"], knots: Float[Array, " r"], slopes: Float[Array, " r"]
) -> Float[Array, " n"]:
    levels, inside = jnp.asarray(_LEVELS), jnp.clip(column, knots[0], knots[-1])
    i = jnp.clip(jnp.searchsorted(knots, inside, side="right") - 1, 0, len(knots) - 2)
    width = knots[i + 1] - knots[i]
    t = (inside - knots[i]) / width
    rise, start, end = levels[i + 1] - levels[i], width * slopes[i], width * slopes[i + 1]
    cubic = levels[i] + t * (
        start + t * (3 * rise - 2 * start - end + t * (start + end - 2 * rise))
    )
    return cubic + jnp.where(column < inside, slopes[0], slopes[-1]) * (column - inside)
