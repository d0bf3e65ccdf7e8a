"""Minima that the data hardly tell apart, and the way from one to another."""

from itertools import permutations

import numpy as np
from jaxtyping import Float

from owlfi._tools.arrays import as_jax
from owlfi._tools.real_line import to_real
from owlfi.inference.search.assess import Assessed
from owlfi.inference.search.stage import Stage
from owlfi.inference.search.widely import Wide

_UNITS = 1.645  # standard errors of an end of an interval, more of few observations
_APART = 5.0  # standard errors between minima


def find_rivals(wide: Wide, found: Assessed) -> list[Float[np.ndarray, " p"]]:
    """Other places where searches ended, at which the squared MMD is nearly as small."""
    reach = np.sqrt(np.diag(np.asarray(found.errors.sandwich.covariance)))
    rise = _UNITS**2 * float(np.asarray(found.errors.sandwich.rise).max()) * len(reach)
    best, *others = wide.landings
    known = [np.asarray(best.minimum.theta)]
    for other in others:
        theta = np.asarray(other.minimum.theta)
        apart = [(np.abs(theta - there) > _APART * reach).any() for there in known]
        if other.value - best.value < rise and all(apart):
            known.append(theta)
    return known[1:]


def rivals_apart(stage: Stage, wide: Wide, found: Assessed) -> Float[np.ndarray, "k p"]:
    """Where they are from the lowest on the real line, in parameters that the data determine."""
    lowest = np.asarray(wide.best.minimum.theta)
    places = as_jax(np.stack([lowest, *find_rivals(wide, found)]))
    v = np.asarray(to_real(places, stage.problem.prior.bounds))
    known = np.isfinite(np.diag(np.asarray(found.errors.sandwich.covariance)))
    return np.where(known, v[1:] - v[0], 0.0)


def list_jumps(apart: Float[np.ndarray, "k p"]) -> Float[np.ndarray, "j p"]:
    """Steps from each minimum to each other, by where they are from one of them.

    As many lead back as there: a chain that takes them at random may accept as Metropolis does.

    >>> list_jumps(np.array([[2.0]])).ravel()
    array([ 2., -2.])
    """
    places = [np.zeros(apart.shape[1]), *apart]
    return np.array([b - a for a, b in permutations(places, 2)]).reshape(-1, apart.shape[1])
