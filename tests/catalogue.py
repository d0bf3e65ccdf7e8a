"""Every kernel and every measure, one row each; the property tests run over these rows."""

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import scipy.stats

import reference
from owlfi import (
    Beta,
    Empirical,
    Exponential,
    Gamma,
    HalfNormal,
    InverseMultiquadric,
    Kernel,
    Korobov,
    Laplace,
    LogNormal,
    Matern,
    Measure,
    Mixture,
    Normal,
    Poisson,
    Product,
    RationalQuadratic,
    Separable,
    SquaredExponential,
    StudentT,
    TruncatedNormal,
    Uniform,
    as_measure,
)


class KernelRow(NamedTuple):
    """A kernel for each lengthscale, and its formula at distance r in one dimension."""

    make: Callable[[Any], Kernel]
    formula: reference.Formula
    periodic: bool = False


class MeasureRow(NamedTuple):
    """A measure on the line, its density for reference, and its twin in scipy.stats."""

    measure: Measure
    line: reference.Line | reference.Atoms
    twin: Any = None


def _sum(lengthscale: Any) -> Kernel:
    return 0.5 * SquaredExponential(lengthscale) + Matern(1.5, 2 * lengthscale) + 0.1


def _sum_formula(r: np.ndarray, lengthscale: float) -> np.ndarray:
    smooth, rough = reference.squared_exponential, reference.matern(1.5)
    return 0.5 * smooth(r, lengthscale) + rough(r, 2 * lengthscale) + reference.Extended(0.1)


def _product(lengthscale: Any) -> Kernel:
    wide, narrow = SquaredExponential(2 * lengthscale), SquaredExponential(lengthscale)
    return wide * Matern(0.5, lengthscale) * narrow


def _product_formula(r: np.ndarray, lengthscale: float) -> np.ndarray:
    smooth, rough = reference.squared_exponential, reference.matern(0.5)
    return smooth(r, 2 * lengthscale) * rough(r, lengthscale) * smooth(r, lengthscale)


def _scaled(lengthscale: Any) -> Kernel:
    return 2.5 * Matern(2.5, lengthscale)


def _scaled_formula(r: np.ndarray, lengthscale: float) -> np.ndarray:
    return 2.5 * reference.matern(2.5)(r, lengthscale)


def _separable(lengthscale: Any) -> Kernel:
    return Separable(Matern(1.5, lengthscale))


def _korobov(alpha: int) -> KernelRow:
    make = partial(Korobov, alpha, 0.5)
    return KernelRow(lambda period: make(period=period), reference.korobov(alpha, 0.5), True)


KERNELS = {
    "squared-exponential": KernelRow(SquaredExponential, reference.squared_exponential),
    "matern-1/2": KernelRow(partial(Matern, 0.5), reference.matern(0.5)),
    "matern-3/2": KernelRow(partial(Matern, 1.5), reference.matern(1.5)),
    "matern-5/2": KernelRow(partial(Matern, 2.5), reference.matern(2.5)),
    "matern-7/2": KernelRow(partial(Matern, 3.5), reference.matern(3.5)),
    "matern-1.2": KernelRow(partial(Matern, 1.2), reference.matern(1.2)),
    "inverse-multiquadric": KernelRow(InverseMultiquadric, reference.inverse_multiquadric),
    "rational-quadratic-1": KernelRow(RationalQuadratic, reference.rational_quadratic(1)),
    "rational-quadratic-0.7": KernelRow(
        partial(RationalQuadratic, alpha=0.7), reference.rational_quadratic(0.7)
    ),
    "separable": KernelRow(_separable, reference.matern(1.5)),
    "scaled": KernelRow(_scaled, _scaled_formula),
    "sum": KernelRow(_sum, _sum_formula),
    "product": KernelRow(_product, _product_formula),
    "korobov-1": _korobov(1),
    "korobov-2": _korobov(2),
    "korobov-4": _korobov(4),
}

_ATOMS = [3.0, -1.0, 0.5, 0.75, 7.0]
_ATOM_WEIGHTS = [0.125, 0.5, 0.0625, 0.1875, 0.125]

MEASURES = {
    "uniform": MeasureRow(Uniform(-1, 2), reference.uniform(-1, 2), scipy.stats.uniform(-1, 3)),
    "normal": MeasureRow(Normal(0.5, 2), reference.normal(0.5, 2), scipy.stats.norm(0.5, 2)),
    "log-normal": MeasureRow(
        LogNormal(0.2, 0.8),
        reference.log_normal(0.2, 0.8),
        scipy.stats.lognorm(0.8, scale=np.exp(0.2)),
    ),
    "half-normal": MeasureRow(
        HalfNormal(1.3), reference.half_normal(1.3), scipy.stats.halfnorm(0, 1.3)
    ),
    "exponential": MeasureRow(
        Exponential(1.7), reference.exponential(1.7), scipy.stats.expon(scale=1 / 1.7)
    ),
    "gamma-0.5": MeasureRow(
        Gamma(0.5, 2), reference.gamma(0.5, 2), scipy.stats.gamma(0.5, scale=0.5)
    ),
    "gamma-2.5": MeasureRow(
        Gamma(2.5, 2), reference.gamma(2.5, 2), scipy.stats.gamma(2.5, scale=0.5)
    ),
    "beta-0.5-0.5": MeasureRow(
        Beta(0.5, 0.5), reference.beta(0.5, 0.5), scipy.stats.beta(0.5, 0.5)
    ),
    "beta-2.5-0.7": MeasureRow(
        Beta(2.5, 0.7), reference.beta(2.5, 0.7), scipy.stats.beta(2.5, 0.7)
    ),
    "laplace": MeasureRow(
        Laplace(0.3, 0.8), reference.laplace(0.3, 0.8), scipy.stats.laplace(0.3, 0.8)
    ),
    "truncated-normal": MeasureRow(
        TruncatedNormal(0.25, 1.5, -0.5, 2),
        reference.truncated_normal(0.25, 1.5, -0.5, 2),
        scipy.stats.truncnorm(-0.5, 1.75 / 1.5, 0.25, 1.5),
    ),
    "truncated-normal-below": MeasureRow(
        TruncatedNormal(1, 2, high=0.25),
        reference.truncated_normal(1, 2, -np.inf, 0.25),
        scipy.stats.truncnorm(-np.inf, -0.375, 1, 2),
    ),
    "truncated-normal-tail": MeasureRow(
        TruncatedNormal(0, 1, low=4),
        reference.truncated_normal(0, 1, 4, np.inf),
        scipy.stats.truncnorm(4, np.inf),
    ),
    "student-t-1": MeasureRow(StudentT(1), reference.student_t(1, 0, 1), scipy.stats.cauchy()),
    "student-t-4": MeasureRow(
        StudentT(4, 0.5, 2), reference.student_t(4, 0.5, 2), scipy.stats.t(4, 0.5, 2)
    ),
    "poisson": MeasureRow(Poisson(3.5), reference.poisson(3.5), scipy.stats.poisson(3.5)),
    "mixture": MeasureRow(
        Mixture([Normal(-2, 0.5), Laplace(1, 2)], [0.25, 0.75]),
        reference.mixture([0.25, 0.75], [reference.normal(-2, 0.5), reference.laplace(1, 2)]),
    ),
    "empirical": MeasureRow(
        Empirical(_ATOMS, _ATOM_WEIGHTS), reference.Atoms(_ATOMS, _ATOM_WEIGHTS)
    ),
    "scipy-logistic": MeasureRow(
        as_measure(scipy.stats.logistic(0.3, 0.7)),
        reference.logistic(0.3, 0.7),
        scipy.stats.logistic(0.3, 0.7),
    ),
    "scipy-gumbel": MeasureRow(
        as_measure(scipy.stats.gumbel_r(0.3, 2)),
        reference.gumbel(0.3, 2),
        scipy.stats.gumbel_r(0.3, 2),
    ),
    "scipy-weibull": MeasureRow(
        as_measure(scipy.stats.weibull_min(0.7, scale=1.5)),
        reference.weibull(0.7, 1.5),
        scipy.stats.weibull_min(0.7, scale=1.5),
    ),
    "scipy-binomial": MeasureRow(
        as_measure(scipy.stats.binom(7, 0.375)),
        reference.binomial(7, 0.375),
        scipy.stats.binom(7, 0.375),
    ),
}


class SpaceRow(NamedTuple):
    """A measure on R^s with independent coordinates, and their densities."""

    measure: Measure
    lines: tuple[reference.Line, ...]


SPACES = {
    "uniform-2": SpaceRow(
        Uniform([-1, 0], [2, 1]), (reference.uniform(-1, 2), reference.uniform(0, 1))
    ),
    "normal-2": SpaceRow(
        Normal([0.5, -1], [2, 1]), (reference.normal(0.5, 2), reference.normal(-1, 1))
    ),
    "mixed-2": SpaceRow(
        Product(Normal(0.5, 2), Exponential(1.7)),
        (reference.normal(0.5, 2), reference.exponential(1.7)),
    ),
    "uniform-3": SpaceRow(Uniform(0, 1, dim=3), (reference.uniform(0, 1),) * 3),
    "normal-3": SpaceRow(Normal(0.5, 2, dim=3), (reference.normal(0.5, 2),) * 3),
    "mixed-3": SpaceRow(
        Product(Uniform(0, 1), Normal(0.5, 2), Laplace(0.3, 0.8)),
        (reference.uniform(0, 1), reference.normal(0.5, 2), reference.laplace(0.3, 0.8)),
    ),
}

PAIRS = [
    (kernel, measure)
    for kernel, measure in product(KERNELS, MEASURES)
    if not KERNELS[kernel].periodic
    or measure in ("uniform", "normal", "poisson", "empirical", "scipy-binomial")
]

CLOSED_PAIRS = [
    *product(["squared-exponential"], ["uniform", "normal", "exponential", "laplace"]),
    *product(["squared-exponential"], ["half-normal", "truncated-normal"]),
    *product(
        ["matern-1/2", "matern-3/2", "matern-5/2", "matern-7/2"],
        ["uniform", "normal", "exponential", "laplace"],
    ),
    *product(
        ["inverse-multiquadric", "rational-quadratic-1", "korobov-1", "korobov-2", "korobov-4"],
        ["uniform"],
    ),
]

QUICK_PAIRS = [  # few programs to compile
    (kernel, measure)
    for kernel, measure in PAIRS
    if kernel == "squared-exponential"
    or (kernel == "matern-5/2" and (kernel, measure) in CLOSED_PAIRS)
    or (kernel in ("inverse-multiquadric", "korobov-2") and measure == "uniform")
    or (kernel in ("matern-1.2", "rational-quadratic-0.7", "product") and measure == "gamma-0.5")
]
