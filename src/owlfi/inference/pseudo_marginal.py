"""MMD-Bayes for any simulator: Metropolis steps on theta and on the points u together.

The points are part of the state, so the target is prior(theta) · E_u exp(-beta·MMD²_u(theta)): the
mean over designs of the exponential, not the exponential of the mean. The better the quadrature,
the less they differ. Simulations that are rough in theta would let a chain stay wherever one design
comes near to the data by luck; their embedding is regressed on theta instead.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from scipy.special import ndtr

from owlfi._tools.arrays import as_jax
from owlfi._tools.checks import as_count
from owlfi._tools.keys import fold_key, numpy_generator, split_key
from owlfi._tools.progress import collect
from owlfi.inference.chains import draw_starts, join_chains
from owlfi.inference.expected_calls import expect_fit, need_fit
from owlfi.inference.fit import find_minimum
from owlfi.inference.learning_rate import (
    check_beta,
    choose_beta,
    match_covariance,
    mode_of,
    real_covariance,
)
from owlfi.inference.search.objective import Objective, value_at
from owlfi.inference.search.regressed import Regressed, regressed_value
from owlfi.inference.search.rivals import list_jumps
from owlfi.problem.prior import log_prior
from owlfi.problem.problem import Problem, as_problem
from owlfi.problem.rules import Rule, as_rule
from owlfi.problem.spending import Expected, limit_calls
from owlfi.results import Posterior, announce
from owlfi.results.health import tell_interruption

_CORRELATION = 0.95  # of the noise from step to step (Deligiannidis, Doucet and Pitt 2018)
_FAR = 0.2  # of the steps, to where another minimum is
_SAME_DESIGN = 0.8  # the probability to stay with a design of the bank
_STEP = 2.38  # over the root of p: best for normal targets

Design = Any
"""The number of a design in the bank, or normal scores of the points."""


class Noise(NamedTuple):
    """How points are first drawn, how they move, and the squared MMD on them."""

    first: Callable[[np.random.Generator], Design]
    move: Callable[[np.random.Generator, Design], Design]
    value: Callable[[Design, Array], Array]
    """Less its data term."""
    calls: int = 0
    """Simulator calls that tuned the designs."""
    calls_a_step: int = 0


class State(NamedTuple):
    """One chain."""

    v: Float[np.ndarray, " p"]
    design: Design
    log_density: float


def _expect(rule: Rule, problem: Problem, draws: int, chains: int, designs: int) -> Expected:
    tuned = designs * rule.tuning_calls(problem)
    walked = chains * (draws + draws // 5 + 1) * rule.m
    return Expected(need_fit(rule, problem) + tuned, expect_fit(rule, problem) + tuned + walked)


@limit_calls(_expect)
def pseudo_marginal(
    key: Key[Array, ""],
    problem: Problem,
    rule: Rule,
    *,
    beta: float | None = None,
    draws: int = 1000,
    chains: int = 4,
    designs: int = 16,
    max_calls: int | None = None,
    progress: bool = False,
) -> Posterior:
    """Draws of prior(theta) · E_u exp(-beta·MMD²_u(theta)) by Metropolis steps.

    beta: as in `mmd_bayes`.
    draws: of each chain; the first fifth of it is run before and thrown away.
    designs: of the bank that the rule draws beforehand; the mean over u is over these. Rules with
        independent points and equal weights have no bank: their points move a little in each step.
    max_calls: the most rows that the simulator may compute; fewer draws are made where they do
        not do.
    progress: show a bar; Ctrl-C returns the draws that are finished.

    Raises ValueError for discrete parameters, and too few calls to fit the data.

    >>> import jax, owlfi
    >>> model = owlfi.models.g_and_k().fix(theta_3=0.1, theta_4=0.1)
    >>> x = model([3.0, 1.0], owlfi.iid(jax.random.key(0), 500, model.measure))
    >>> rule = owlfi.OptimallyWeighted(m=32, base_kernel=owlfi.Matern(2.5))
    >>> problem, small = owlfi.Problem(model, x), {"draws": 200, "designs": 2}
    >>> owlfi.pseudo_marginal(jax.random.key(1), problem, rule, **small).draws.shape
    (800, 2)
    """
    problem, rule = as_problem(problem), as_rule(rule)
    draws, chains = as_count("draws", draws, 5), as_count("chains", chains)
    designs, warmup = as_count("designs", designs), draws // 5
    check_beta(beta)
    fit_key, bank_key, key = split_key(key, 3)
    fit = find_minimum("pseudo_marginal", fit_key, problem, rule, progress=progress)
    mode, random = mode_of(fit), numpy_generator(key)
    rate, smooth = choose_beta(mode, beta), fit.regressed if beta is None else None
    noise = _choose_noise(bank_key, problem, rule, fit.objective, designs, smooth)
    centre, covariance = real_covariance(mode)
    starts = draw_starts(fold_key(key, 1), problem.prior, centre, covariance, chains)
    jumps = _STEP / len(centre) ** 0.5 * np.linalg.cholesky(np.asarray(covariance))
    log_density = _log_density(problem, rate, noise)

    step = _walk(random, jumps, list_jumps(mode.rivals), noise, log_density)

    def steps() -> Iterator[list[State]]:
        begun = [(v, noise.first(random)) for v in starts]
        states = [State(v, design, log_density(v, design)) for v, design in begun]
        for _ in range(warmup + draws):
            states = [step(state) for state in states]
            yield states

    history = collect(steps(), warmup + draws, "Pseudo-marginal", show=progress)
    v = np.stack([[state.v for state in states] for states in history], 1)
    moved = float(np.mean(np.any(np.diff(v, axis=1) != 0, axis=-1)))
    v = v[:, min(warmup, v.shape[1] // 5) :]
    v = match_covariance(mode, problem.prior, rate, v) if beta is None else v
    about = {"method": "pseudo-marginal MMD-Bayes", "beta": rate, "acceptance": moved}
    calls = fit.calls + noise.calls + chains * (len(history) + 1) * noise.calls_a_step
    told = (*fit.warnings, *tell_interruption(len(history), warmup + draws, "steps"))
    return announce(join_chains(problem.prior, as_jax(v), calls, about, told))


def _walk(
    random: np.random.Generator,
    jumps: Float[np.ndarray, "p p"],
    far: Float[np.ndarray, "k p"],
    noise: Noise,
    log_density: Callable[[np.ndarray, Design], float],
) -> Callable[[State], State]:
    """One step of Metropolis; far: the jumps between minima that the data hardly tell apart."""

    def step(state: State) -> State:
        v = state.v + jumps @ random.standard_normal(len(jumps))
        if len(far) and random.uniform() < _FAR:
            v = v + far[random.integers(len(far))]
        design = noise.move(random, state.design)
        proposed = State(v, design, log_density(v, design))
        better = proposed.log_density - state.log_density > np.log(random.uniform())
        return proposed if better else state

    return step


def _log_density(
    problem: Problem, beta: float, noise: Noise
) -> Callable[[np.ndarray, Design], float]:
    """Of the state; -∞ where the simulation fails, which is then never accepted."""

    def log_density(place: np.ndarray, design: Design) -> float:
        v = jnp.asarray(place)
        value = noise.value(design, v)
        total = float(log_prior(problem.prior, v)) - beta * float(value)
        return total if np.isfinite(total) else -np.inf

    return log_density


def _choose_noise(
    key: Key[Array, ""],
    problem: Problem,
    rule: Rule,
    objective: Objective,
    designs: int,
    smooth: Regressed | None,
) -> Noise:
    """That of the rule, or none of a regression around the estimate."""
    if smooth is not None:
        return _without_noise(smooth)
    if rule.independent:
        return _correlate_noise(problem, objective)
    bank = [rule.quadrature(k, problem) for k in split_key(key, designs)]
    objectives = [objective.on(design.points, design.weights) for design in bank]

    def move(random: np.random.Generator, design: Design) -> Design:
        return design if random.uniform() < _SAME_DESIGN else random.integers(designs)

    calls = sum(design.tuning_calls for design in bank)
    return Noise(
        lambda random: random.integers(designs),
        move,
        lambda i, v: value_at(objectives[int(i)], v),
        calls,
        objective.m,
    )


def _without_noise(objective: Regressed) -> Noise:
    """The points of the simulations around the estimate, which stay."""
    return Noise(
        lambda _: None, lambda _, design: design, lambda _, v: regressed_value(objective, v)
    )


def _correlate_noise(problem: Problem, objective: Objective) -> Noise:
    """Independent points whose normal scores move by a short autoregressive step."""
    shape = objective.points.shape
    rest = (1 - _CORRELATION**2) ** 0.5

    def value(scores: Design, v: Array) -> Array:
        u = problem.simulator.measure.from_uniform(jnp.asarray(ndtr(scores)))
        return value_at(objective.on(u, objective.weights), v)

    return Noise(
        lambda random: random.standard_normal(shape),
        lambda random, scores: _CORRELATION * scores + rest * random.standard_normal(shape),
        value,
        calls_a_step=objective.m,
    )
