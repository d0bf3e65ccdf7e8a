"""Families of distributions on the line: a standard coordinate, and what makes a draw of it.

Formulas take the functions of arrays (NumPy's or JAX's), those of `scipy.special`, the coordinate
and the parameters of NumPy's method of the same name.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy  # stats is loaded where it is used
from scipy import special

from owlfi._tools.gamma_quantile import gamma_quantile
from owlfi.problem.recorded_noise.inverse import by_tails, count_quantile, vonmises_quantile
from owlfi.problem.recorded_noise.kinds import BELOW_ONE, EXPONENTIAL, LAPLACE, NORMAL, UNIFORM

Formula = Callable[..., Any]
_FAR = 1e-4  # upper tail


class Family(NamedTuple):
    """How a draw is made."""

    kind: str
    formula: Formula
    counts: bool = False
    """Whether draws are whole numbers."""
    in_jax: bool = True
    """Whether the formula can be traced."""


def _gamma(xp: Any, sp: Any, z: Any, shape: Any, scale: Any = 1.0) -> Any:
    if xp is not np:
        return scale * gamma_quantile(xp.asarray(shape, float), -sp.log_ndtr(-z))
    return scale * by_tails(z, _gamma_below, _gamma_above, shape)


def _gamma_below(p: Any, shape: Any) -> Any:
    return special.gammaincinv(shape, p)


def _gamma_above(p: Any, shape: Any) -> Any:
    """From below as long as 1 - p keeps its digits: from above takes 20 times as long."""
    found, far = np.asarray(special.gammaincinv(shape, 1 - p)), np.asarray(p < _FAR)
    return special.gammainccinv(shape, p, out=found, where=far) if far.any() else found


def _beta_below(p: Any, a: Any, b: Any) -> Any:
    return special.betaincinv(a, b, p)


def _beta_above(p: Any, a: Any, b: Any) -> Any:
    return 1 - special.betaincinv(b, a, p)


def _f_below(p: Any, up: Any, down: Any) -> Any:
    share = special.betaincinv(up / 2, down / 2, p)
    return down * share / (up * (1 - share))


def _f_above(p: Any, up: Any, down: Any) -> Any:
    share = special.betaincinv(down / 2, up / 2, p)
    return down * (1 - share) / (up * share)


def _t(xp: Any, sp: Any, z: Any, df: Any) -> Any:
    return -np.sign(z) * special.stdtrit(df, special.ndtr(-np.abs(z)))


def _cauchy(xp: Any, sp: Any, z: Any) -> Any:
    return xp.sign(z) / xp.tan(np.pi * sp.ndtr(-xp.abs(z)))


def _gumbel(xp: Any, sp: Any, z: Any, loc: Any, scale: Any) -> Any:
    return loc - scale * xp.log(-sp.log_ndtr(z))


def _logistic(xp: Any, sp: Any, z: Any, loc: Any, scale: Any) -> Any:
    return loc + scale * (sp.log_ndtr(z) - sp.log_ndtr(-z))


def _wald(xp: Any, sp: Any, z: Any, mean: Any, scale: Any) -> Any:
    return scale * by_tails(z, scipy.stats.invgauss.ppf, scipy.stats.invgauss.isf, mean / scale)


def _noncentral_chisquare(xp: Any, sp: Any, z: Any, df: Any, nonc: Any) -> Any:
    return by_tails(z, scipy.stats.ncx2.ppf, scipy.stats.ncx2.isf, df, nonc)


def _noncentral_f(xp: Any, sp: Any, z: Any, up: Any, down: Any, nonc: Any) -> Any:
    return by_tails(z, scipy.stats.ncf.ppf, scipy.stats.ncf.isf, up, down, nonc)


def _triangular(xp: Any, sp: Any, v: Any, left: Any, mode: Any, right: Any) -> Any:
    width, rise = right - left, mode - left
    below = left + xp.sqrt(v * width * rise)
    above = right - xp.sqrt((1 - v) * width * (right - mode))
    return xp.where(v * width < rise, below, above)


def _vonmises(xp: Any, sp: Any, v: Any, mu: Any, kappa: Any) -> Any:
    return np.remainder(vonmises_quantile(v, kappa) + mu + np.pi, 2 * np.pi) - np.pi


def _poisson(xp: Any, sp: Any, v: Any, rate: Any) -> Any:
    return count_quantile(v, special.pdtr, rate, rate**0.5, rate)


def _binomial(xp: Any, sp: Any, v: Any, n: Any, p: Any) -> Any:
    mean = n * p
    return count_quantile(v, _binomial_cdf, mean, (mean * (1 - p)) ** 0.5, n, p)


def _binomial_cdf(k: Any, n: Any, p: Any) -> Any:
    if isinstance(k, float):
        return 1.0 if k >= n else special.betainc(n - k, k + 1, 1 - p)
    return np.where(k >= n, 1.0, special.betainc(np.maximum(n - k, 0.5), k + 1, 1 - p))


def _negative_binomial(xp: Any, sp: Any, v: Any, n: Any, p: Any) -> Any:
    mean = n * (1 - p) / p
    return count_quantile(v, _negative_binomial_cdf, mean, (mean / p) ** 0.5, n, p)


def _negative_binomial_cdf(k: Any, n: Any, p: Any) -> Any:
    return special.betainc(n, k + 1, p)


def _geometric(xp: Any, sp: Any, v: Any, p: Any) -> Any:
    return xp.maximum(xp.ceil(xp.log1p(-v) / xp.log1p(-xp.minimum(p, BELOW_ONE))), 1.0)


def _hypergeometric(xp: Any, sp: Any, v: Any, good: Any, bad: Any, draws: Any) -> Any:
    total = np.maximum(good + bad, 1)
    mean, share = draws * (good / total), bad / total
    sd = np.sqrt(mean * share * (total - draws) / np.maximum(total - 1, 1))
    return count_quantile(v, _hypergeometric_cdf, mean, sd, good, bad, draws)


def _hypergeometric_cdf(k: Any, good: Any, bad: Any, draws: Any) -> Any:
    most = np.minimum(good, draws)
    return np.where(k >= most, 1.0, scipy.stats.hypergeom.cdf(k, good + bad, good, draws))


def _zipf(xp: Any, sp: Any, v: Any, a: Any) -> Any:
    return 1 + count_quantile(v, _zipf_cdf, 0.0, 0.0, a)


def _zipf_cdf(k: Any, a: Any) -> Any:
    return 1 - special.zeta(a, k + 2) / special.zeta(a)  # of the number less 1


FAMILIES = {
    "random": Family(UNIFORM, lambda xp, sp, v: v),
    "uniform": Family(UNIFORM, lambda xp, sp, v, low, high: low + (high - low) * v),
    "triangular": Family(UNIFORM, _triangular),
    "power": Family(UNIFORM, lambda xp, sp, v, a: v ** (1 / a)),
    "vonmises": Family(UNIFORM, _vonmises, in_jax=False),
    "standard_normal": Family(NORMAL, lambda xp, sp, z: z),
    "normal": Family(NORMAL, lambda xp, sp, z, loc, scale: loc + scale * z),
    "lognormal": Family(NORMAL, lambda xp, sp, z, mean, sigma: xp.exp(mean + sigma * z)),
    "logistic": Family(NORMAL, _logistic),
    "gumbel": Family(NORMAL, _gumbel),
    "standard_cauchy": Family(NORMAL, _cauchy),
    "standard_gamma": Family(NORMAL, _gamma),
    "gamma": Family(NORMAL, _gamma),
    "chisquare": Family(NORMAL, lambda xp, sp, z, df: _gamma(xp, sp, z, df / 2, 2.0)),
    "beta": Family(
        NORMAL, lambda xp, sp, z, a, b: by_tails(z, _beta_below, _beta_above, a, b), in_jax=False
    ),
    "f": Family(
        NORMAL, lambda xp, sp, z, up, down: by_tails(z, _f_below, _f_above, up, down), in_jax=False
    ),
    "standard_t": Family(NORMAL, _t, in_jax=False),
    "wald": Family(NORMAL, _wald, in_jax=False),
    "noncentral_chisquare": Family(NORMAL, _noncentral_chisquare, in_jax=False),
    "noncentral_f": Family(NORMAL, _noncentral_f, in_jax=False),
    "standard_exponential": Family(EXPONENTIAL, lambda xp, sp, e: e),
    "exponential": Family(EXPONENTIAL, lambda xp, sp, e, scale: scale * e),
    "weibull": Family(EXPONENTIAL, lambda xp, sp, e, a: e ** (1 / a)),
    "pareto": Family(EXPONENTIAL, lambda xp, sp, e, a: xp.expm1(e / a)),
    "rayleigh": Family(EXPONENTIAL, lambda xp, sp, e, scale: scale * xp.sqrt(2 * e)),
    "laplace": Family(LAPLACE, lambda xp, sp, x, loc, scale: loc + scale * x),
    "poisson": Family(UNIFORM, _poisson, counts=True, in_jax=False),
    "binomial": Family(UNIFORM, _binomial, counts=True, in_jax=False),
    "negative_binomial": Family(UNIFORM, _negative_binomial, counts=True, in_jax=False),
    "geometric": Family(UNIFORM, _geometric, counts=True),
    "hypergeometric": Family(UNIFORM, _hypergeometric, counts=True, in_jax=False),
    "zipf": Family(UNIFORM, _zipf, counts=True, in_jax=False),
}
