"""Draws that are vectors, or made of several coordinates, by their construction."""

from typing import Any

import numpy as np

from owlfi.problem.recorded_noise.families import FAMILIES
from owlfi.problem.recorded_noise.kinds import NORMAL, UNIFORM

_PLAIN = np.random.default_rng(0)
_SMALL = 1e-12  # gamma draws, whose distribution function is a power


def draw_logseries(rng: Any, p: Any, size: Any) -> Any:
    """1 + floor(log V / log Q), Q = 1 - (1-p)^U (Kemp 1981)."""
    if not rng._tape.traced:
        _PLAIN.logseries(p, size=None if np.ndim(p) else 0)
    xp, shape = rng._tape.numpy, rng._shape(size, (p,))
    u, v = rng._tape.take(UNIFORM, shape), rng._tape.take(UNIFORM, shape)
    q = -xp.expm1(xp.log1p(-xp.asarray(p)) * (1 - u))  # neither U nor V is 0
    value = (1 + xp.floor(xp.log1p(-v) / xp.log(q))).astype(np.int64)
    return value if size is not None or shape or rng._tape.traced else int(value)


def draw_dirichlet(rng: Any, alpha: Any, size: Any) -> Any:
    """Gamma draws over their sum, by their logarithms: those of small shapes are tiny."""
    if not rng._tape.traced:
        _PLAIN.dirichlet(alpha, size=0)
    xp, special = rng._tape.numpy, rng._tape.special
    alpha = xp.asarray(alpha, float)
    z = rng._tape.take(NORMAL, (*rng._shape(size), len(alpha)))
    parts = FAMILIES["standard_gamma"].formula(xp, special, z, alpha)
    near_zero = (special.log_ndtr(z) + special.gammaln(alpha + 1)) / alpha  # P(a, x) ≈ x^a / Γ(a+1)
    logs = xp.where(parts > _SMALL, xp.log(xp.maximum(parts, _SMALL)), near_zero)
    shares = xp.exp(logs - logs.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


def draw_multinomial(rng: Any, n: Any, pvals: Any, size: Any) -> np.ndarray:
    """Binomial draws, one category after the other."""
    _PLAIN.multinomial(n, pvals, size if size is None or np.ndim(n) or np.ndim(pvals) > 1 else 0)
    left, p = np.asarray(n), np.asarray(pvals, float)
    own = np.broadcast_shapes(left.shape, p.shape[:-1])
    shape = own if size is None else rng._shape(size)
    left, rest, found = np.broadcast_to(left, shape), np.ones(p.shape[:-1]), []
    for j in range(p.shape[-1] - 1):
        share = np.clip(p[..., j] / np.where(rest > 0, rest, 1.0), 0.0, 1.0)
        found.append(np.asarray(rng.binomial(left, share, size=shape)))
        left, rest = left - found[-1], rest - p[..., j]
    return np.stack([*found, left], -1)


def draw_multivariate_hypergeometric(rng: Any, colors: Any, nsample: Any, size: Any) -> np.ndarray:
    """Hypergeometric draws, one colour after the other."""
    _PLAIN.multivariate_hypergeometric(colors, nsample, size=0)
    colors, shape = np.asarray(colors), rng._shape(size)
    left, found = np.broadcast_to(np.asarray(nsample), shape), []
    for j, good in enumerate(colors[:-1]):
        found.append(np.asarray(rng.hypergeometric(good, colors[j + 1 :].sum(), left, size=shape)))
        left = left - found[-1]
    return np.stack([*found, left], -1)


def draw_multivariate_normal(
    rng: Any, mean: Any, cov: Any, size: Any, check_valid: Any, tol: float
) -> Any:
    """mean + L z with the Cholesky factor L, which is smooth in the covariance."""
    if not rng._tape.traced:
        _PLAIN.multivariate_normal(mean, cov, None, check_valid, tol)
    xp = rng._tape.numpy
    mean, cov = xp.asarray(mean, float), xp.asarray(cov, float)
    z = rng.standard_normal((*rng._shape(size), len(mean)))
    return mean + z @ _factor(xp, cov).T


def _factor(xp: Any, cov: Any) -> Any:
    try:
        return xp.linalg.cholesky(cov)
    except np.linalg.LinAlgError:  # singular
        values, vectors = np.linalg.eigh(cov)
        return vectors * np.sqrt(np.maximum(values, 0.0))
