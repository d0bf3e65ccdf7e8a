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


def list_jumps(stage: Stage, wide: Wide, found: Assessed) -> Float[np.ndarray, "k p"]:
    """Steps on the real line from each of these minima to each other, none where there is one.

    As many lead back as there: a chain that takes them at random may accept as Metropolis does.
    """
    places = [np.asarray(wide.best.minimum.theta), *find_rivals(wide, found)]
    v = [np.asarray(to_real(as_jax(theta), stage.problem.prior.bounds)) for theta in places]
    return np.array([b - a for a, b in permutations(v, 2)]).reshape(-1, len(places[0]))
