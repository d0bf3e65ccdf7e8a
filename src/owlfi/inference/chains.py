"""Chains on the real line as draws of a posterior, with what they say of each other."""

from typing import Any

import numpy as np
from jaxtyping import Array, Float

from owlfi._tools.arrays import as_jax
from owlfi._tools.real_line import from_real
from owlfi.inference.health import tell_few_draws, tell_unmixed
from owlfi.inference.mixing import count_effective, measure_r_hat
from owlfi.problem.prior import Prior
from owlfi.results import Posterior


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
