"""A data kernel fitted to the model at an estimate: each column normal, none correlated.

In such coordinates differences in directions of small variance count as much as any, and for data
that are normal there, perhaps after an increasing change of each column, the minimum of the MMD is
about as good as maximum likelihood.
"""

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Key

from owlfi._tools.arrays import as_jax
from owlfi._tools.programs import compile_quickly
from owlfi.kernels import Kernel, SquaredExponential
from owlfi.kernels.correlation import rank_correlation
from owlfi.kernels.normal_scores import Mapped, NormalScores, fit_scores
from owlfi.kernels.spread import measure_spreads, typical_distance
from owlfi.kernels.transformed import Transformed
from owlfi.points.sequences import sobol
from owlfi.problem.problem import Problem

_ROWS_A_COLUMN = 20
_FEWEST_ROWS = 128


def whiten_data(
    key: Key[Array, ""], problem: Problem, theta: Float[Array, " p"]
) -> tuple[Problem, int]:
    """The problem with a kernel on whitened data, and the rows that were simulated for it.

    Rows of its own: as many as a design has tell little of correlations between many columns.
    """
    rows = whitening_rows(problem)
    u = sobol(key, rows, problem.simulator.measure)
    y = np.asarray(problem.simulator.attempt(theta, u, problem.observed.shape[1]))
    fine = y[np.isfinite(y).all(1)]
    if len(fine) < rows // 2:  # an estimate where the simulator fails tells nothing
        return problem, rows
    return problem.with_kernel(whitened_kernel(problem.observed, fine)), rows


def whitening_rows(problem: Problem) -> int:
    """How many are simulated."""
    rows = max(_FEWEST_ROWS, _ROWS_A_COLUMN * problem.observed.shape[1])
    return 2 ** (rows - 1).bit_length()


class Whitening(eqx.Module):
    """From rows to coordinates in which a model is about standard normal."""

    scores: NormalScores
    matrix: Float[Array, "d d"]

    def __call__(self, rows: Float[Array, "n d"]) -> Float[Array, "n d"]:
        return self.scores(rows) @ self.matrix.T


def whitened_kernel(observed: Float[Array, "n d"], sample: Float[np.ndarray, "m d"]) -> Kernel:
    """A squared exponential at the median distance of observations that are whitened by a sample.

    A column without variance in the sample keeps the unit of the observations; without any there,
    it is left out.
    """
    whitening = fit_whitening(sample, observed)
    lengthscale = typical_distance(_whiten(whitening, observed))
    return Mapped(Transformed(SquaredExponential(lengthscale), whitening.matrix), whitening.scores)


def fit_whitening(sample: Float[np.ndarray, "m d"], observed: Float[Array, "n d"]) -> Whitening:
    """By a sample of a model, with the units of observations where its columns do not vary."""
    spreads = np.asarray(measure_spreads(as_jax(sample)))
    units = np.where(spreads > 0, spreads, np.asarray(measure_spreads(observed)))
    scores = fit_scores(sample, np.where(units > 0, units, 1.0))
    kept = np.diag((units > 0).astype(float))
    matrix = np.linalg.inv(np.linalg.cholesky(rank_correlation(sample))) @ kept
    return Whitening(scores, as_jax(matrix))


@compile_quickly
def _whiten(whitening: Whitening, rows: Float[Array, "n d"]) -> Float[Array, "n d"]:
    return whitening(rows)
