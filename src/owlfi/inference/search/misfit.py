"""How large a squared MMD samples explain, where the model is right."""

from typing import NamedTuple

import numpy as np
from scipy.special import gammaincc, gammainccinv

from owlfi._tools.arrays import fill_rows, next_rung
from owlfi.problem.problem import Problem

_ROWS = 1000  # of the observations, to know their spread by


class Expected(NamedTuple):
    """The squared MMD between a true model and n observations: its mean and variance."""

    mean: float
    variance: float

    def tail(self, squared_mmd: float, excess: float) -> float:
        """The probability of a larger one, by a gamma distribution with these moments.

        excess: what the points of the simulations add on average.
        """
        if not self.variance > 0:
            return 1.0
        shape, scale = self._shape_and_scale(excess)
        return float(gammaincc(shape, max(squared_mmd, 0.0) / scale))

    def quantile(self, level: float, excess: float) -> float:
        """The squared MMD that is exceeded with probability 1 - level."""
        if not self.variance > 0:
            return self.mean
        shape, scale = self._shape_and_scale(excess)
        return float(gammainccinv(shape, 1 - level)) * scale

    def _shape_and_scale(self, excess: float) -> tuple[float, float]:
        shape = self.mean**2 / self.variance
        grown = 1 + max(excess, 0.0) / self.mean  # as if there were fewer observations
        return shape, grown * self.mean / shape


def expect_squared_mmd(problem: Problem) -> Expected:
    """From the Gram matrix of the observations: tr(H K H) / n² and 2 |H K H|² / n⁴."""
    x, n = np.asarray(problem.observed), len(problem.observed)
    rows = x[:: -(-n // _ROWS)]
    size = len(rows)
    filled = fill_rows(rows, next_rung(size))  # what is compiled serves other n
    gram = np.asarray(problem.data_kernel.gram(filled, filled))[:size, :size]
    centred = gram - gram.mean(0) - gram.mean(1)[:, None] + gram.mean()
    free = max(size - 1, 1)  # one row knows no spread
    mean = np.trace(centred) / free / n
    variance = 2 * (centred**2).sum() / free**2 / n**2
    return Expected(float(mean), float(variance))
