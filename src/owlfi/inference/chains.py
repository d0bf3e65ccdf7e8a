"""Chains on the real line: where they begin, and what their draws say of each other."""

from typing import Any

import numpy as np
from jaxtyping import Array, Float, Key

from owlfi._tools.arrays import as_jax
from owlfi._tools.keys import fold_key, numpy_generator
from owlfi._tools.real_line import from_real, to_real
from owlfi.inference.health import tell_few_draws, tell_unmixed
from owlfi.inference.mixing import count_effective, measure_r_hat
from owlfi.problem.prior import Prior
from owlfi.results import Posterior

_TRIES = 50  # for each chain, near the mode
_FROM_PRIOR = 1000


def draw_starts(
    key: Key[Array, ""],
    prior: Prior,
    mode: Float[Array, " p"],
    covariance: Float[Array, "p p"],
    chains: int,
) -> Float[np.ndarray, "chains p"]:
    """Draws around the mode on the real line, or of the prior nearest to it where that is 0 there.

    A chain that begins where the density is 0 has no way to tell which way leads out.
    """
    centre, root = np.asarray(mode), np.linalg.cholesky(np.asarray(covariance))
    noise = numpy_generator(key).normal(size=(_TRIES * chains, len(centre)))
    near = centre + noise @ root.T
    allowed = near[~prior.excludes(from_real(as_jax(near), prior.bounds))][:chains]
    if len(allowed) == chains:
        return allowed
    drawn = np.asarray(to_real(prior.sample(fold_key(key, 1), _FROM_PRIOR), prior.bounds))
    away = (np.linalg.solve(root, (drawn - centre).T) ** 2).sum(0)
    nearest = np.argsort(away, kind="stable")[: chains - len(allowed)]
    return np.concatenate([allowed, drawn[nearest]])


def join_chains(
    prior: Prior,
    v: Float[Array, "chains n p"],
    calls: int,
    about: dict[str, Any],
    warnings: tuple[str, ...],
) -> Posterior:
    """The draws of all chains, one chain after the other.

    `about` gains the effective number of draws of each parameter and, of two chains or more, R-hat;
    `warnings` what is wrong with either.
    """
    theta = as_jax(np.asarray(from_real(v, prior.bounds)).reshape(-1, v.shape[-1]))
    chains = np.asarray(v)
    found = {"effective_draws": count_effective(chains).tolist()}
    if len(v) > 1:
        found["r_hat"] = measure_r_hat(chains).tolist()
    weights = as_jax(np.full(len(theta), 1 / len(theta)))
    few = tell_few_draws(len(theta), found["effective_draws"], "take more draws")
    told = (*warnings, *few, *tell_unmixed(prior.names, found.get("r_hat", [])))
    return Posterior(prior.names, theta, weights, calls, len(v), about | found, told)
