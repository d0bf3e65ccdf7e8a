"""MMD-Bayes: the generalised posterior exp(-beta·MMD²)·prior, sampled by NUTS (Chérief-Abdellatif
and Alquier 2020).

One fixed quadrature makes it a smooth density, known up to a constant. Where simulations are rough
in theta, so does the regression of their embedding over thetas around the estimate. For simulators
without derivatives see `pseudo_marginal`.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from owlfi._tools.arrays import as_jax
from owlfi._tools.checks import as_count
from owlfi._tools.keys import split_key
from owlfi._tools.libraries import blackjax
from owlfi._tools.programs import compile_quickly
from owlfi._tools.progress import collect, split_chunks
from owlfi.inference.chains import draw_starts, join_chains
from owlfi.inference.efficient.quasi_likelihood import QuasiLikelihood, quasi_likelihood
from owlfi.inference.efficient.refine import as_discrepancy, expect_refinement
from owlfi.inference.expected_calls import expect_fit, need_fit
from owlfi.inference.fit import Fit, find_minimum
from owlfi.inference.health import tell_divergent
from owlfi.inference.learning_rate import (
    Mode,
    check_beta,
    choose_beta,
    match_covariance,
    mode_of,
    real_covariance,
)
from owlfi.inference.refined_fit import refine_fit
from owlfi.inference.search.objective import Objective
from owlfi.inference.search.regressed import Regressed
from owlfi.inference.search.rivals import list_jumps
from owlfi.problem.prior import Prior
from owlfi.problem.problem import Problem, as_problem
from owlfi.problem.rules import Rule, as_rule
from owlfi.problem.spending import Expected, afford, limit_calls, take_calls
from owlfi.results import Posterior, announce
from owlfi.results.health import tell_interruption

_CHUNK = 50  # draws of every chain between two moves of the progress bar
_LEAPS = 4  # simulations on all points for a draw of NUTS, mostly


class Chains(NamedTuple):
    """All chains, with what NUTS has learnt for each."""

    states: Any
    step_size: Float[Array, " chains"]
    inverse_mass_matrix: Float[Array, "chains p p"]


class Draws(NamedTuple):
    """Some draws of each chain."""

    v: Float[Array, "chains n p"]
    simulated: Array
    """How often all points were simulated."""
    divergent: Array


def _expect(
    rule: Rule, problem: Problem, draws: int, chains: int, warmup: int, discrepancy: str
) -> Expected:
    each = chains * _LEAPS * rule.m
    begun = warmup * each
    if discrepancy == "efficient":
        begun += expect_refinement(rule.m, problem)
    fit = expect_fit(rule, problem)
    return Expected(need_fit(rule, problem) + begun, fit + begun + draws * each)


@limit_calls(_expect)
def mmd_bayes(
    key: Key[Array, ""],
    problem: Problem,
    rule: Rule,
    *,
    beta: float | None = None,
    discrepancy: str = "mmd",
    draws: int = 1000,
    chains: int = 4,
    warmup: int = 300,
    max_calls: int | None = None,
    progress: bool = False,
) -> Posterior:
    """Draws of the generalised posterior for simulators in JAX.

    beta: how strongly the data count; 1 is the paper's choice. Where left out, it is calibrated so
        that the posterior is as wide as the minimum-distance estimate is uncertain, and the draws
        are stretched until that holds for every parameter and pair of them.
    discrepancy: "mmd", or "efficient", as in `minimum_distance`: the draws are about as wide as the
        likelihood would leave them, of the observations that fit, with the mass refitted at each
        theta. Beta is then half of the number of these observations, where left out.
    draws: of each chain, after `warmup` steps that tune it.
    max_calls: the most rows that the simulator may compute; looked at after the warm-up and
        after every 50 draws, with the calls of the last 50 as the price of the next.
    progress: show a bar; Ctrl-C returns the draws that are finished.

    `about` has beta, R-hat and the effective number of draws of each parameter, and the share of
    divergent steps.

    Raises ValueError for discrete parameters, simulators or priors without derivatives, a given
    beta or the efficient discrepancy where derivatives do not tell how y changes (counts, jumps,
    chaos), another discrepancy, and too few calls for the warm-up.

    >>> import owlfi
    >>> model = owlfi.models.g_and_k().fix(theta_3=0.1, theta_4=0.1)
    >>> x = model([3.0, 1.0], owlfi.iid(jax.random.key(0), 500, model.measure))
    >>> rule = owlfi.OptimallyWeighted(m=32, base_kernel=owlfi.Matern(2.5))
    >>> posterior = owlfi.mmd_bayes(jax.random.key(1), owlfi.Problem(model, x), rule, draws=100)
    >>> posterior.draws.shape, max(posterior.about["r_hat"]) < 1.1
    ((400, 2), True)
    """
    problem, rule = as_problem(problem), as_rule(rule)
    draws, chains = as_count("draws", draws, 4), as_count("chains", chains)
    warmup, discrepancy = as_count("warmup", warmup, 20), as_discrepancy(discrepancy)
    problem.simulator.check_differentiable("mmd_bayes", "pseudo_marginal")
    problem.prior.check_differentiable("mmd_bayes", "pseudo_marginal")
    check_beta(beta)
    plain, (fit_key, start_key, warm_key, key) = discrepancy == "mmd", split_key(key, 4)
    fit = find_minimum("mmd_bayes", fit_key, problem, rule, whole=plain, progress=progress)
    _check_slopes(fit, beta, discrepancy)
    begin = _begin_plainly(fit) if plain else _refine(fit_key, rule, fit, progress)
    rate = choose_beta(begin.mode, beta)
    units = _units(begin.mode)
    target = Target(begin.objective, problem.prior, jnp.array(rate), as_jax(units))
    now, taken = _begin_chains(start_key, warm_key, target, begin.mode, chains, warmup)
    each = 0 if fit.rough else fit.objective.m  # a regression simulates nothing
    take_calls(begun := int(taken) * each)
    parts = split_chunks(draws, _CHUNK)
    jumps = as_jax(list_jumps(begin.mode.rivals) / units)
    price = begun / warmup + chains * each * bool(len(jumps))
    steps = _draw_parts(key, target, now, jumps, parts, each, price)
    done = collect(steps, len(parts), "MMD-Bayes", show=progress)
    drawn = np.concatenate([made.v for made in done], 1) * units
    drawn = match_covariance(begin.mode, problem.prior, rate, drawn) if beta is None else drawn
    divergent = sum(int(made.divergent) for made in done) / drawn[..., 0].size
    about = {"method": begin.method, "beta": rate, "divergent": divergent}
    stopped = tell_interruption(drawn.shape[1], draws, "draws of each chain")
    told = (*begin.warnings, *stopped, *tell_divergent(divergent))
    calls = begin.calls + begun + sum(int(made.simulated) * each for made in done)
    return announce(join_chains(problem.prior, as_jax(drawn), calls, about, told))


class _Begin(NamedTuple):
    """What is drawn from, and what is known when the draws begin."""

    objective: Objective | Regressed | QuasiLikelihood
    mode: Mode
    method: str
    calls: int
    warnings: tuple[str, ...]


def _begin_plainly(fit: Fit) -> _Begin:
    objective = fit.regressed or fit.objective
    return _Begin(objective, mode_of(fit), "MMD-Bayes", fit.calls, fit.warnings)


def _refine(key: Key[Array, ""], rule: Rule, fit: Fit, progress: bool) -> _Begin:
    """By the efficient discrepancy, or plainly with a word where it gives no estimate."""
    refined, calls, _, told = refine_fit(key, rule, fit, progress)
    if refined is None:
        return _begin_plainly(fit)._replace(calls=calls, warnings=told)
    ends, widths = fit.objective.ends, np.asarray(fit.objective.widths)
    objective, looked = quasi_likelihood(refined.balance, ends)
    theta, covariance = refined.theta, refined.covariance
    hessian = np.linalg.inv(covariance) / float(objective.beta)
    alone = np.zeros((0, len(theta)))  # known around one of them only
    mode = Mode(theta, theta, covariance, hessian, ends, widths, alone)
    return _Begin(objective, mode, "MMD-Bayes, efficient discrepancy", calls + looked, told)


def _check_slopes(fit: Fit, beta: float | None, discrepancy: str) -> None:
    if fit.assessed.without_slopes is not None and discrepancy == "efficient":
        raise ValueError(
            "mmd_bayes with discrepancy='efficient' needs the derivatives of the simulator, but "
            "they do not tell how y changes with theta: it is rounded, counts, jumps or chaotic; "
            "use posterior_bootstrap"
        )
    if fit.rough and beta is not None:
        raise ValueError(
            f"mmd_bayes with beta = {beta} needs the derivatives of the simulator, but they do not "
            "tell how y changes with theta: it is rounded, counts, jumps or chaotic; leave beta "
            "out, or use pseudo_marginal"
        )


class Target(eqx.Module):
    """The log density of the generalised posterior on the real line, up to a constant."""

    objective: Objective | Regressed | QuasiLikelihood
    prior: Prior
    beta: Float[Array, ""]
    units: Float[Array, " p"]
    """Of the places that it is asked for."""

    def __call__(self, place: Float[Array, " p"]) -> Float[Array, ""]:
        v = self.units * place
        value = self.prior.real_log_density(v) - self.beta * self.objective.at(v)
        return jnp.where(jnp.isnan(value), -jnp.inf, value)


def _begin_chains(
    start_key: Key[Array, ""],
    warm_key: Key[Array, ""],
    target: Target,
    mode: Mode,
    chains: int,
    warmup: int,
) -> tuple[Chains, Array]:
    """Chains that are warm, and how often that simulated all points."""
    v, covariance = real_covariance(mode)
    starts = draw_starts(start_key, target.prior, v, covariance, chains)
    units = np.asarray(target.units)
    begun, metric = as_jax(starts / units), as_jax(covariance / np.outer(units, units))
    return _warm_up(warm_key, target, begun, metric, warmup)


def _units(mode: Mode) -> Float[np.ndarray, " p"]:
    """Of the real line: 1 where a prior has an end, since logarithms have no unit.

    NUTS takes what it has not seen to vary by about 1.
    """
    low, high = map(np.asarray, mode.ends)
    errors = np.sqrt(np.diag(np.asarray(real_covariance(mode)[1])))
    return np.where(np.isinf(low) & np.isinf(high), errors, 1.0)


@compile_quickly
def _warm_up(
    key: Key[Array, ""], target: Target, starts: Array, covariance: Array, steps: int
) -> tuple[Chains, Array]:
    def warm(case: tuple[Array, Array]) -> tuple[Chains, Array]:
        adaptation = blackjax().window_adaptation(
            blackjax().nuts,
            target,
            is_mass_matrix_diagonal=False,
            initial_inverse_mass_matrix=covariance,
            adaptation_info_fn=lambda state, info, adaptation: info.num_integration_steps,
        )
        (state, found), taken = adaptation.run(*case, num_steps=steps)
        return Chains(state, found["step_size"], found["inverse_mass_matrix"]), taken.sum()

    chains, taken = jax.lax.map(warm, (jax.random.split(key, len(starts)), starts))
    return chains, taken.sum()


def _draw_parts(
    key: Key[Array, ""],
    target: Target,
    now: Chains,
    jumps: Float[Array, "k p"],
    parts: list[Any],
    each: int,
    price: float,
) -> Iterator[Draws]:
    """Draws of all chains, part by part.

    each: calls of simulating all points; price: those of a draw of every chain, as far as is known.
    """
    for number, part in enumerate(parts):
        afford(1, max(math.ceil(price * len(part)), 1))
        now, made = _draw(jax.random.fold_in(key, number), target, now, jumps, len(part))
        take_calls(calls := int(made.simulated) * each)
        price = calls / len(part)
        yield made


@compile_quickly
def _draw(
    key: Key[Array, ""], target: Target, chains: Chains, jumps: Float[Array, "k p"], n: int
) -> tuple[Chains, Draws]:
    kernel = blackjax().nuts.build_kernel()

    def run(case: tuple[Array, Chains]) -> tuple[Any, tuple[Array, ...]]:
        run_key, chain = case

        def step(state, step_key):  # type: ignore[no-untyped-def]
            state, info = kernel(
                step_key, state, target, chain.step_size, chain.inverse_mass_matrix
            )
            if len(jumps):
                state = _jump(jax.random.fold_in(step_key, 1), state, target, jumps)
            taken = info.num_integration_steps + bool(len(jumps))
            return state, (state.position, taken, info.is_divergent)

        return jax.lax.scan(step, chain.states, jax.random.split(run_key, n))

    keys = jax.random.split(key, len(chains.step_size))
    states, (v, simulated, divergent) = jax.lax.map(run, (keys, chains))
    return chains._replace(states=states), Draws(v, simulated.sum(), divergent.sum())


def _jump(key: Key[Array, ""], state: Any, target: Target, jumps: Float[Array, "k p"]) -> Any:
    """To where another minimum is as far, by Metropolis: NUTS never leaves the one it is in."""
    which, chance = jax.random.split(key)
    there = state.position + jumps[jax.random.randint(which, (), 0, len(jumps))]
    moved = blackjax().nuts.init(there, target)
    better = jnp.log(jax.random.uniform(chance)) < moved.logdensity - state.logdensity
    return jax.tree.map(lambda new, old: jnp.where(better, new, old), moved, state)
