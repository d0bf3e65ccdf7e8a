"""Which theta to run next: where the posterior is uncertain, by a surrogate of what is simulated.

A proposal is a density over the prior's unit cube that is constant on each of many boxes. So draws
and densities are exact, whatever the surrogate says, and prior over proposal gives importance
weights that make every run of every round count (the balance heuristic, Veach and Guibas 1995).
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from owlfi._tools.checks import as_array, as_count, as_kind, brief, plain_number
from owlfi._tools.fields import check_fields
from owlfi._tools.keys import numpy_generator, split_key
from owlfi.inference.acceptance import SHARE
from owlfi.inference.proposals.distances import predict_distances
from owlfi.inference.proposals.surrogate import fit_surrogate
from owlfi.problem.prior import Prior
from owlfi.problem.problem import Problem, as_problem
from owlfi.problem.simulations import Simulations, as_simulations

SAFETY = 0.1
_CANDIDATES = 4096
_IN_A_BOX = 4
_UNEQUAL = np.log(2.0)  # times that differ by less say more of the machine than of theta


class Proposal(eqx.Module):
    """A density relative to the prior, one number for each of b boxes that fill the unit cube.

    >>> import jax
    >>> whole = the_prior(1)
    >>> whole.draw(jax.random.key(0), 5).shape, float(whole.density(np.array([[0.3]]))[0])
    ((5, 1), 1.0)
    """

    low: Float[Array, "b p"]
    high: Float[Array, "b p"]
    relative: Float[Array, " b"]

    def __check_init__(self) -> None:
        check_fields(self)

    def draw(self, key: Key[Array, ""], n: int) -> Float[np.ndarray, "n p"]:
        """n points of the unit cube, spread evenly over the boxes, in random order."""
        random, n = numpy_generator(key), as_count("n", n)
        low, high = np.asarray(self.low), np.asarray(self.high)
        mass = np.cumsum((high - low).prod(1) * np.asarray(self.relative))
        levels = (np.arange(n) + random.random()) / n * mass[-1]
        box = np.searchsorted(mass, levels).clip(0, len(mass) - 1)
        v = low[box] + (high - low)[box] * random.random((n, low.shape[1]))
        return random.permutation(v)  # so that the first of them are as good as any

    def density(self, v: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
        """Relative to the prior, at points of the unit cube."""
        low, high = np.asarray(self.low), np.asarray(self.high)
        inside = ((v[:, None] >= low) & ((v[:, None] < high) | (high == 1))).all(2)
        return np.asarray(self.relative)[inside.argmax(1)]


def the_prior(p: int) -> Proposal:
    """The proposal that is the prior itself."""
    return Proposal(jnp.zeros((1, p)), jnp.ones((1, p)), jnp.ones(1))


def next_proposal(
    key: Key[Array, ""],
    problem: Problem,
    runs: Simulations,
    *,
    seconds: Any = None,
    share: float = SHARE,
    safety: float = SAFETY,
    before: Proposal | None = None,
) -> Proposal:
    """Where to look next, given simulations so far at thetas anywhere.

    seconds: (t,) how long a run took at each theta; where left out, or where they would differ by
        less than a factor of 2 over where it looks, all cost the same.
    share: of the prior that is to be accepted in the end.
    safety: the share of the draws that come from the prior whatever is known; it bounds the
        importance weights by 1 / safety.
    before: the proposal of the round before, whose boxes are made finer where it matters.

    Draws are proportional to prior × sqrt(P(accepted) / seconds), which has the least variance for
    the time it takes where the surrogate is right (see `predict_distances`).

    Raises ValueError for discrete parameters, fewer than 4 thetas that did not fail, and numbers
    out of range.

    >>> import jax, owlfi
    >>> model = owlfi.models.g_and_k().fix(theta_2=1.0, theta_3=0.1, theta_4=0.1)
    >>> x = model([3.0], owlfi.iid(jax.random.key(0), 99, model.measure))
    >>> problem = owlfi.Problem(model, x)
    >>> thetas = problem.prior.starts(jax.random.key(1), 16)
    >>> u = owlfi.OptimallyWeighted(m=16, base_kernel=owlfi.Matern(2.5)).quadrature
    >>> runs = owlfi.simulate(model, thetas, u(jax.random.key(2), problem))
    >>> proposal = next_proposal(jax.random.key(3), problem, runs)
    >>> v = proposal.draw(jax.random.key(4), 20)
    >>> thetas = problem.prior.from_uniform(v)
    >>> bool(np.median(abs(thetas - 3.0)) < 0.5)  # the prior goes from 0 to 10
    True
    """
    problem, runs = as_problem(problem), as_simulations("runs", runs)
    check_settings(problem, share, safety)
    draw_key, chance_key = split_key(key)
    v = problem.prior.to_uniform(runs.thetas)
    times = None if seconds is None else _as_times(seconds, len(v))
    before = the_prior(v.shape[1]) if before is None else before
    as_kind("before", before, Proposal, "the Proposal of an earlier round")
    candidates = before.draw(draw_key, _CANDIDATES)
    thinned = 1 / before.density(candidates)  # how much of the prior each stands for
    roots = predict_distances(chance_key, problem, runs, v, candidates)
    threshold = _weighted_quantile(roots.ravel(), np.repeat(thinned, roots.shape[1]), float(share))
    chance = (roots <= threshold).mean(1)
    wanted = np.sqrt((chance + 1e-9) / _relative_cost(v, times, candidates))
    return _split_into_boxes(candidates, wanted, thinned, float(safety))


def importance(
    prior: Prior, thetas: Any, rounds: list[tuple[int, Proposal]]
) -> Float[np.ndarray, " t"]:
    """Prior over the mixture of the proposals, at all thetas in the order of the rounds.

    rounds: for each how many thetas it drew, and from which proposal.

    Their mean is one: a weighted mean over the thetas is unbiased for the mean under the prior, for
    proposals that depend on earlier draws with an error that vanishes as draws grow.
    """
    v = prior.to_uniform(thetas)
    parts = [count / len(v) * proposal.density(v) for count, proposal in rounds if count]
    return 1 / np.sum(parts, axis=0)


def _as_times(seconds: Any, count: int) -> Float[np.ndarray, " t"]:
    times = np.asarray(as_array("seconds", seconds))
    if times.shape != (count,) or not (times > 0).all():
        raise ValueError(
            f"seconds must be one positive number for each of the {count} thetas, got shape "
            f"{times.shape} with smallest {times.min() if times.size else None}"
        )
    return times


def _relative_cost(
    v: np.ndarray, times: np.ndarray | None, new: np.ndarray
) -> Float[np.ndarray, " c"]:
    """The expected time of a run at new points, by a surrogate of its logarithm."""
    if times is None:
        return np.ones(len(new))
    mean, _ = fit_surrogate(v, np.log(times)[:, None]).predict(new)
    low, high = np.quantile(mean, [0.05, 0.95])
    return np.exp(np.asarray(mean)[:, 0]) if high - low > _UNEQUAL else np.ones(len(new))


def _weighted_quantile(values: np.ndarray, weights: np.ndarray, level: float) -> float:
    order = np.argsort(values, kind="stable")
    mass = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(mass, level * mass[-1]).clip(0, len(order) - 1)])


def _split_into_boxes(
    candidates: np.ndarray, wanted: np.ndarray, thinned: np.ndarray, safety: float
) -> Proposal:
    """Boxes by splitting the longest side between equally many candidates, the mean in each."""
    p = candidates.shape[1]
    done: list[tuple[np.ndarray, np.ndarray, float]] = []
    open_: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = [
        (np.arange(len(candidates)), np.zeros(p), np.ones(p))
    ]
    while open_:
        inside, low, high = open_.pop()
        side = int(np.argmax(np.ptp(candidates[inside], axis=0)))
        order = inside[np.argsort(candidates[inside, side], kind="stable")]
        half = len(order) // 2
        if len(inside) < 2 * _IN_A_BOX:
            done.append((low, high, float(np.average(wanted[inside], weights=thinned[inside]))))
            continue
        cut = candidates[order[half - 1 : half + 1], side].mean()
        lower, upper = high.copy(), low.copy()
        lower[side] = upper[side] = cut
        open_ += [(order[half:], upper, high), (order[:half], low, lower)]
    lows, highs, means = (np.array(column) for column in zip(*done, strict=True))
    volumes = (highs - lows).prod(1)
    relative = (1 - safety) * means / (volumes @ means) + safety
    return Proposal(jnp.asarray(lows), jnp.asarray(highs), jnp.asarray(relative))


def check_settings(problem: Problem, share: float, safety: float) -> None:
    """ValueError for what `next_proposal` cannot do, before runs are made for it."""
    problem.prior.check_continuous("a proposal")
    for name, value in (("share", share), ("safety", safety)):
        if not 0 < plain_number(name, value) <= 1:
            raise ValueError(f"{name} must lie above 0 and be at most 1, got {brief(value)}")
