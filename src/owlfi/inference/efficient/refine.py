"""From the estimate of plain MMD to the efficient one, with its errors and what to doubt."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float, Key

from owlfi._tools.arrays import as_jax
from owlfi.inference.efficient.features import weigh_features
from owlfi.inference.efficient.free_mass import Balance, balance
from owlfi.inference.efficient.misfit import misfit_of
from owlfi.inference.efficient.moments import Model, model_around
from owlfi.inference.efficient.weighting import full_weights
from owlfi.inference.search.scatter import Scatter
from owlfi.inference.search.stage import Stage
from owlfi.problem.real_line import to_real
from owlfi.problem.rules import Rule


class Refined(NamedTuple):
    """The efficient estimate."""

    theta: Float[np.ndarray, " p"]
    covariance: Float[np.ndarray, "p p"]
    mass: float
    """The share of the observations that the model explains."""
    mass_error: float
    misfit: float
    """The chance of so large a difference between the features of data and model."""
    chances: Float[np.ndarray, " n"]
    outliers: Float[np.ndarray, " n"]
    """1 for observations that were left out."""
    influence: Float[np.ndarray, "p n"]
    """By how many standard errors each observation moves each parameter."""
    settled: bool
    model: Model
    balance: Balance


def refine(
    key: Key[Array, ""],
    rule: Rule,
    stage: Stage,
    theta: Float[Array, " p"],
    scatter: Scatter | None,
) -> tuple[Refined | None, int]:
    """The efficient estimate near a first one, and the calls; None where it cannot be had."""
    ends, widths = stage.problem.prior.bounds, np.asarray(stage.widths)
    model, calls = model_around(key, rule, stage, to_real(theta, ends), scatter)
    if model is None:
        return None, calls
    found = balance(model, stage.problem.observed, np.asarray(theta), ends, widths)
    if found is None or not np.isfinite(found.theta).all():
        return None, calls
    return _describe(model, stage.problem.observed, found), calls + found.calls


def _describe(model: Model, observed: Float[Array, "n d"], found: Balance) -> Refined | None:
    weights = full_weights(found.weighting, found.moments, found.mass)
    if weights is None:
        return None
    n, kept = len(found.kept), float(found.kept.sum())
    p = len(found.theta)
    weighting = np.zeros((p, len(found.mean)))
    weighting[:, found.weighting.columns] = weights[0][:p]
    pulled = np.asarray(weigh_features(model.features, observed, as_jax(weighting)))
    pulled = (pulled - found.mass * (weighting @ found.mean)[:, None]) * found.kept
    covariance = found.errors[:p, :p]
    share = kept / n
    return Refined(
        found.theta,
        covariance,
        share * found.mass,
        share * float(np.sqrt(found.errors[p, p])),
        misfit_of(found, weights, kept),
        found.chances,
        1.0 - found.kept,
        pulled / kept / np.sqrt(np.diagonal(covariance))[:, None],
        found.settled,
        model,
        found,
    )
