"""One of several models: its fit, the fits to reweighted data, and its embedding without bias."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from owlfi._tools.arrays import as_jax
from owlfi._tools.keys import fold_key, split_key
from owlfi._tools.programs import compile_fully
from owlfi.inference.fit import Fit, find_minimum
from owlfi.inference.search.objective import Objective, simulate_each
from owlfi.inference.search.sandwich import draw_by_designs
from owlfi.kernels import Kernel
from owlfi.points.sequences import sobol
from owlfi.problem.problem import Problem
from owlfi.problem.rules import Rule
from owlfi.weights.data_grams import are_enough

_FINE = 1024  # points of each of two designs that are independent of the fit and of each other


class Rival(NamedTuple):
    """What is known of one model."""

    fit: Fit
    fine: tuple[Float[Array, "f d"], Float[Array, "f d"]]
    """Simulations at the estimate on two independent designs, without those that failed."""
    own: Float[Array, "m d"]
    """Those on the points of the fit, at its minimum."""
    refits: Float[Array, "b m d"]
    """The same at the minimum for each weighting of the data, moved as other points would."""
    values: Float[np.ndarray, " b"]
    """MMD² there, less what does not depend on the model; NaN where a refit failed."""
    value: float
    """The same for the data as they are."""
    calls: int

    @property
    def unbiased_value(self) -> float:
        """MMD² at the estimate, likewise: inner products of independent designs have no bias."""
        return float(_cross_value(self.fit.objective, *self.fine))


def fit_rival(
    key: Key[Array, ""], problem: Problem, rule: Rule, shares: Float[Array, "b n"]
) -> Rival:
    """Fit a model to the data and to each weighting of them.

    Raises ValueError where most simulations at the estimate are not finite.
    """
    fit_key, *fine_keys = split_key(key, 3)
    fit = find_minimum("compare", fit_key, problem, rule)
    simulator, objective, landing = problem.simulator, fit.objective, fit.assessed.landing
    shares = objective.fill_shares(shares)
    found = fit.assessed.way.refit_each(objective, landing, None, shares)
    moved = draw_by_designs(fold_key(key, 1), fit.by_designs, len(shares))
    thetas = (np.asarray(found.theta) + moved).clip(*map(np.asarray, objective.ends))
    refits = simulate_each(objective, as_jax(thetas))
    own = simulate_each(objective, landing.minimum.theta[None])[0]
    m = max(_FINE, 4 * 2 ** (rule.m - 1).bit_length())
    columns = problem.observed.shape[1]
    first, second = (
        simulator.attempt(fit.theta, sobol(k, m, simulator.measure), columns) for k in fine_keys
    )
    if not all(are_enough(y) for y in (own, first, second)):
        raise ValueError(
            f"y is NaN or infinite for most u at the estimate theta = {np.asarray(fit.theta)}; "
            "mend the generator, or narrow the prior"
        )
    calls = fit.calls + int(np.sum(found.calls)) + 2 * m + len(own) + refits.shape[0] * len(own)
    values = np.asarray(_values(objective, refits, shares))
    value = float(_values(objective, own[None], objective.shares[None])[0])
    return Rival(fit, (_finished(first), _finished(second)), own, refits, values, value, calls)


def _finished(y: Float[Array, "f d"]) -> Float[Array, "g d"]:
    """The rows that did not fail, which leave the data of the model."""
    rows = np.asarray(y)
    return as_jax(rows[np.isfinite(rows).all(1)])


def measure_apart(a: Rival, b: Rival) -> tuple[float, Float[np.ndarray, " b"]]:
    """The squared MMD between two fitted models, and what it would be by chance alone.

    By chance: the refits, less the fits, one model less the other. Where both models are the same
    at their best, the first is a draw of the second's distribution.
    """
    k = a.fit.objective.data_kernel
    apart = float(_cross_apart(k, *a.fine, *b.fine))
    by_chance = _moved_apart((a.fit.objective, a.refits, a.own), (b.fit.objective, b.refits, b.own))
    return apart, np.asarray(by_chance)


def slopes_of_difference(a: Rival, b: Rival) -> Float[np.ndarray, " n"]:
    """How MMD² of the first less that of the second changes with the weight of each row."""
    objective = a.fit.objective
    x, k = objective.observed[: objective.n], objective.data_kernel
    return np.asarray(_embed(k, x, *b.fine) - _embed(k, x, *a.fine))


@compile_fully
def _values(
    objective: Objective, y: Float[Array, "b m d"], shares: Float[Array, "b n"]
) -> Float[Array, " b"]:
    def value(case: tuple[Array, Array]) -> Array:
        weighted = eqx.tree_at(lambda o: o.shares, objective, case[1])
        return weighted.of_rows(case[0])

    return jax.lax.map(value, (y, shares))


def sum_own_terms(
    k: Kernel, x: Float[Array, "n d"], shares: Float[Array, "b n"]
) -> Float[np.ndarray, " b"]:
    """The part of MMD² that depends on the weighted data alone."""
    return np.asarray(_sum_own_terms(k, x, shares))


@compile_fully
def _sum_own_terms(k: Kernel, x: Array, shares: Array) -> Float[Array, " b"]:
    return jax.lax.map(lambda s: k.self_sum(x, s), shares)


def _inner(k: Kernel, a: Array, b: Array) -> Float[Array, ""]:
    """⟨μ_a, μ_b⟩ of two samples with equal weights."""
    return _towards(k, a, b, jnp.full(len(b), 1 / len(b)))


def _towards(k: Kernel, a: Array, b: Array, shares: Array) -> Float[Array, ""]:
    """The same where the second has weights."""
    return jnp.mean(k.row_sums(a, b, shares))


@compile_fully
def _cross_value(objective: Objective, first: Array, second: Array) -> Float[Array, ""]:
    k, data = objective.data_kernel, (objective.observed, objective.shares)
    return _inner(k, first, second) - _towards(k, first, *data) - _towards(k, second, *data)


@compile_fully
def _cross_apart(k: Kernel, a: Array, a2: Array, b: Array, b2: Array) -> Float[Array, ""]:
    """⟨μ_a - μ_b, μ_a2 - μ_b2⟩."""
    return _inner(k, a, a2) - _inner(k, a, b2) - _inner(k, b, a2) + _inner(k, b, b2)


@compile_fully
def _embed(k: Kernel, x: Array, first: Array, second: Array) -> Float[Array, " n"]:
    """2 μ at the rows of the data."""
    one, other = (k.row_sums(x, y, jnp.full(len(y), 1 / len(y))) for y in (first, second))
    return one + other


@compile_fully
def _moved_apart(
    a: tuple[Objective, Array, Array], b: tuple[Objective, Array, Array]
) -> Float[Array, " b"]:
    (first, ya, own_a), (second, yb, own_b) = a, b

    def square(case: tuple[Array, Array]) -> Array:
        parts = [first.finished(case[0]), first.finished(own_a)]
        parts += [second.finished(case[1]), second.finished(own_b)]
        signs = (1, -1, -1, 1)
        weights = [sign * part.weights for sign, part in zip(signs, parts, strict=True)]
        rows = jnp.concatenate([part.y for part in parts])
        return first.data_kernel.self_sum(rows, jnp.concatenate(weights))

    return jax.lax.map(square, (ya, yb))
