"""Searches from several starts, and from more of them where the landing is doubtful."""

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import jax
import numpy as np

from owlfi._tools.arrays import as_jax
from owlfi.inference.search.newton import Minimum
from owlfi.inference.search.stage import Stage
from owlfi.inference.search.starts import Starts
from owlfi.inference.search.ways import Beginning, Landing, Way, begin_at_best
from owlfi.problem.spending import (
    OutOfCallsError,
    calls_left,
    is_tight,
    keep_back,
    tell_less,
)

DOUBTFUL = 0.05  # the chance of a squared MMD, below which other starts are tried


class Wide(NamedTuple):
    """All landings, the best first."""

    landings: tuple[Landing, ...]
    calls: int
    interrupted: bool
    searches: int
    """How many of the landings are the ends of searches, not only the best start."""

    @property
    def best(self) -> Landing:
        return self.landings[0]


def search_widely(stage: Stage, way: Way, starts: Starts, refined: int) -> Wide:
    """From where scouts came, and down the ladder from more starts until the fit can be believed.

    Ctrl-C ends it with the searches that are finished, at least one.
    """
    scouted, calls = _scout(stage, way, starts, refined)
    landings: list[Landing] = []
    interrupted = False
    try:
        for begin in chain(scouted, _while_doubtful(stage, way, starts, landings)):
            landing = way.search(stage.objective, begin.theta, begin.ladder)
            landings.append(jax.block_until_ready(landing))
    except KeyboardInterrupt as end:
        if not landings and not (is_tight() and isinstance(end, OutOfCallsError)):
            raise
        interrupted = True
    calls += sum(int(landing.minimum.calls) for landing in landings)
    if not landings:
        return stay_at_best(starts)._replace(calls=calls)
    return Wide(tuple(sorted(landings, key=_value)), calls, interrupted, len(landings))


def stay_at_best(starts: Starts) -> Wide:
    """Without a search."""
    theta, value = as_jax(np.asarray(starts.thetas)[0]), as_jax(np.float64(starts.value))
    none, no = as_jax(np.int64(0)), as_jax(np.bool_(False))
    landing = Landing(Minimum(theta, value, none, no, theta[None], value[None]))
    return Wide((landing,), 0, True, 0)


def _scout(
    stage: Stage, way: Way, starts: Starts, refined: int
) -> tuple[tuple[Beginning, ...], int]:
    """Where to begin, as far as calls are left for a search from there."""
    try:
        with keep_back(way.search_calls(stage.objective)):
            return way.scout(stage.objective, starts, refined)
    except OutOfCallsError:
        return begin_at_best(starts), 0


def _while_doubtful(
    stage: Stage, way: Way, starts: Starts, landings: list[Landing]
) -> Iterator[Beginning]:
    """Further starts, until the best of the landings so far can be believed."""
    for start in np.asarray(starts.thetas)[: way.more]:
        if not is_doubtful(stage, min(landings, key=_value)):
            return
        if is_tight() and calls_left() < way.search_calls(stage.objective):
            tell_less()
            return
        yield Beginning(as_jax(start), starts.ladder)


def is_doubtful(stage: Stage, landing: Landing) -> bool:
    """Whether the squared MMD is larger than samples of a true model would have it."""
    return stage.chance(landing.value, stage.independent_excess) < DOUBTFUL


def _value(landing: Landing) -> float:
    return landing.value
