"""Whether what is left between data and model is more than samples explain."""

import numpy as np

from owlfi.inference.efficient.free_mass import Balance
from owlfi.inference.search.misfit import Expected

Weights = tuple[np.ndarray, np.ndarray, np.ndarray]


def misfit_of(found: Balance, weights: Weights, n: float) -> float:
    """The chance of a larger (f̄ - c μ)ᵀ W (f̄ - c μ), by a gamma distribution with its moments.

    Under the model f̄ - c μ has the covariance P C Pᵀ / n with P = I - J B, and some more for the
    designs of the simulations.
    """
    b, w, jacobian = weights
    columns = found.weighting.columns
    rest = (np.asarray(found.data.mean) - found.mass * found.mean)[columns]
    left = np.eye(len(columns)) - jacobian @ b
    between = found.moments.means[:, columns]
    designs = np.cov(between.T) / len(between)
    spread = found.moments.covariances.mean(0)[np.ix_(columns, columns)] / n
    own, more = (left @ part @ left.T @ w for part in (spread, designs))
    expected = Expected(float(np.trace(own)), float(2 * (own * own.T).sum()))
    return expected.tail(float(rest @ w @ rest), float(np.trace(more)))
