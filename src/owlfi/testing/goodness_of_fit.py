"""Could this model, at any parameter, have produced the data? Algorithm 1 of the paper.

The parametric bootstrap: data sets simulated at the estimate go through the procedure that the
observed data went through, fit included, and their statistics show what to expect of a true model.
"""

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from owlfi._tools.keys import fold_key, split_key
from owlfi._tools.progress import collect
from owlfi.inference.search.objective import Objective, objective_of
from owlfi.kernels import Kernel
from owlfi.points.sequences import sobol
from owlfi.problem.fresh_data import draw_data
from owlfi.problem.problem import Problem
from owlfi.problem.rules import Rule
from owlfi.problem.spending import Expected, limit_calls
from owlfi.results import HypothesisTest, announce
from owlfi.results.health import tell_failed_rows, tell_interruption
from owlfi.testing.cost import plan_goodness_of_fit
from owlfi.testing.designs import Drawn, draw_designs, retune_designs
from owlfi.testing.health import tell_failed_replicates, tell_few_rows, tell_unfinished_fits
from owlfi.testing.p_values import check_level, decide, studentise
from owlfi.testing.procedure import Procedure, Refit
from owlfi.testing.searches import Adam, Search, Starts, as_search
from owlfi.testing.settings import check_settings
from owlfi.weights.quadrature import unweighted


def _expect(problem: Problem, rule: Rule, level: float, **options: Any) -> Expected:
    cost = plan_goodness_of_fit(problem, rule, level=level, **options)
    fewest = math.ceil(1 / level) * (len(problem.observed) + rule.m)  # no step of any search
    return Expected(rule.tuning_calls(problem) + fewest, cost.expected)


@limit_calls(_expect)
def goodness_of_fit(
    key: Key[Array, ""],
    problem: Problem,
    rule: Rule,
    *,
    theta: Any = None,
    resamples: int = 200,
    level: float = 0.05,
    aggregate: bool = False,
    designs: int = 1,
    retune: bool = False,
    restarts: int = 1,
    search: str | Adam = "newton",
    max_calls: int | None = None,
    progress: bool = False,
) -> HypothesisTest:
    """Test whether the model could have produced the data, with any parameters or with `theta`.

    theta: (p,), for the simple hypothesis that these are the parameters; where left out, they are
        estimated, from the data and from every replicate alike.
    resamples: B, how many data sets are simulated; p = (1 + k) / (1 + B).
    aggregate: take the largest studentised statistic over lengthscales of k from 0.1 to 2 times the
        one of the problem, ranks of the columns and their magnitudes, and single columns: it sees
        more kinds of misfit, and `about["largest"]` says where it saw most.
    designs: how many the rule draws. All fits share one, and replicates are simulated at an
        estimate on many more points; of several, each fit and each statistic takes one at random,
        as Algorithm 1 has it.
    retune: weights tuned to simulations at a first estimate, for the data and every replicate
        alike, instead of to the whole prior, where this is so wide that tuned weights are no better
        than equal ones.
    restarts: searches besides that from the estimate, which is the best of 8 on the observed data.
    search: "newton", or `Adam()` for Algorithm 2 of the paper.
    max_calls: the most rows that the simulator may compute; fewer replicates are made where
        they do not do.
    progress: show a bar; Ctrl-C makes the test with the replicates that are finished.

    Where the model does not change smoothly with its parameters (counts, jumps, chaos), all data
    sets are fitted in a regression over simulations around the estimate. Where the problem chose k
    for its data, so does every replicate. Those whose fit fails count as +∞, which only makes p
    larger.

    Raises ValueError for fewer than 5 observations, a B too small for the level, discrete
    parameters, Adam with a simulator that is no JAX function or not smooth, where the fit to the
    data fails, a U-statistic to retune, and for too few calls.

    >>> import owlfi
    >>> model = owlfi.models.g_and_k().fix(theta_3=0.1, theta_4=0.1)
    >>> x = model([3.0, 1.0], owlfi.iid(jax.random.key(0), 500, model.measure))
    >>> rule = owlfi.OptimallyWeighted(m=32, base_kernel=owlfi.Matern(2.5))
    >>> test = owlfi.goodness_of_fit(jax.random.key(1), owlfi.Problem(model, x), rule, resamples=50)
    >>> test.rejected, test.theta.round(0)
    (False, Array([3., 1.], dtype=float64))
    """
    way = as_search(search, theta, restarts)
    settings = check_settings(problem, rule, way, resamples, level, aggregate, designs, retune)
    design_key, start_key, observed_key, key = split_key(key, 4)
    drawn = draw_designs(design_key, problem, rule, settings)
    objective, starts = _begin(start_key, problem, drawn, way)
    if settings.retune:
        tuned_key, theta = fold_key(start_key, 1), starts.observed[0]
        drawn = retune_designs(tuned_key, problem, rule, settings, drawn, theta)
        drawn = drawn._replace(calls=drawn.calls + starts.calls)
        objective, starts = _begin(start_key, problem, drawn, way)
    parts = objective, drawn.bank, starts.others, settings.factors, starts.search
    procedure = Procedure(*parts, views=len(settings.factors) > 1)
    observed = _refit_observed(observed_key, problem, procedure, starts)
    refined_key = fold_key(design_key, settings.designs)
    law, more = _refine(refined_key, problem, procedure, settings.fine, observed[-1])
    replicates, lost = _replicate(key, problem, procedure, law, settings.resamples, progress)
    check_level(len(replicates.theta), level)
    calls = drawn.calls + starts.calls + more
    calls += int(sum(refit.calls for refit in observed) + replicates.calls.sum())
    test = _judge(problem, procedure, observed[-1], replicates, settings.level, calls)
    told = _tell(test, bool(observed[-1].converged), len(problem.observed), settings.resamples)
    known = (*problem.warnings, *drawn.first.warnings, *tell_failed_rows(float(lost.mean())))
    return announce(replace(test, warnings=(*known, *told)))


def _begin(
    key: Key[Array, ""], problem: Problem, drawn: Drawn, way: Search
) -> tuple[Objective, Starts]:
    """The squared MMD on the first design, and where searches start on it."""
    objective = objective_of(problem, drawn.first)
    return objective, way.start(key, problem, objective, drawn.first)


def _refit_observed(
    key: Key[Array, ""], problem: Problem, procedure: Procedure, starts: Starts
) -> list[Refit]:
    """From all starts, then, as the replicates are, from the estimate; the last one counts."""
    x = problem.observed
    found = [procedure.refit_from(key, x, group) for group in procedure.search.group(starts)]
    best = min(found, key=lambda refit: np.nan_to_num(refit.value, nan=np.inf), default=None)
    start = starts.observed[0] if best is None else jnp.asarray(best.theta)
    found.append(procedure.refit(key, x, problem.data_kernel, start))
    if not np.isfinite(found[-1].statistics).all():
        raise ValueError(
            f"the fit to the observations failed at theta = {found[-1].theta}: y is NaN or "
            "infinite; mend the generator or narrow the prior"
        )
    return found


def _refine(
    key: Key[Array, ""], problem: Problem, procedure: Procedure, fine: int, observed: Refit
) -> tuple[Float[Array, " p"], int]:
    """The theta of the replicates, and its calls: the estimate, on many points if its own are few.

    Replicates simulated at one that a coarse design has moved would be moved twice.
    """
    theta = jnp.asarray(observed.theta)
    if not fine:
        return theta, 0
    quadrature = unweighted(sobol(key, fine, problem.simulator.measure))
    best = procedure.search.refine(objective_of(problem, quadrature), theta)
    return (best.theta if bool(jnp.isfinite(best.value)) else theta), int(best.calls)


def _replicate(
    key: Key[Array, ""],
    problem: Problem,
    procedure: Procedure,
    theta: Array,
    count: int,
    progress: bool,
) -> tuple[Refit, Float[np.ndarray, " b"]]:
    """The procedure on data simulated at theta, and the shares of these that failed.

    Those finished when interrupted.
    """
    simulator, (n, d) = problem.simulator, problem.observed.shape

    def replicate(number: int) -> tuple[Refit, np.ndarray]:
        own = _own_keys(key, number)
        x, failed, calls = draw_data(simulator, own[0], theta, n, d)
        refit = procedure.refit(own[1], x, _choose_kernel(problem, x), theta)
        return refit._replace(calls=refit.calls + calls), np.array(failed)

    def steps() -> Iterator[tuple[Refit, np.ndarray]]:
        if simulator.runtime.threads == 1:
            yield from map(replicate, range(count))
            return
        with ThreadPoolExecutor(simulator.runtime.threads) as threads:
            try:
                yield from threads.map(replicate, range(count))
            finally:
                threads.shutdown(cancel_futures=True)

    done = collect(steps(), count, "Parametric bootstrap", show=progress)
    return jax.tree.map(lambda *leaves: np.stack(leaves), *done)


@jax.jit
def _own_keys(key: Key[Array, ""], number: int) -> Key[Array, " 2"]:
    return jax.random.split(jax.random.fold_in(key, number))


def _choose_kernel(problem: Problem, x: Float[Array, "n d"]) -> Kernel:
    """k of a data set, chosen as that of the observed; where there is none, all of it is NaN."""
    try:
        return problem.kernel_of(x)
    except ValueError:  # not finite, or all rows equal
        return jax.tree.map(lambda number: number * jnp.nan, problem.data_kernel)


def _judge(
    problem: Problem,
    procedure: Procedure,
    observed: Refit,
    replicates: Refit,
    level: float,
    calls: int,
) -> HypothesisTest:
    by_factor = np.concatenate([observed.statistics[None], replicates.statistics])
    studentised = studentise(by_factor) if procedure.views else by_factor
    statistics = studentised.max(1)
    about = {
        "method": "composite" if procedure.search.composite else "simple",
        "failed": int(np.isinf(by_factor[1:, 0]).sum()),
        "not_converged": int((~replicates.converged & np.isfinite(by_factor[1:, 0])).sum()),
        "designs": len(procedure.designs.points),
        "statistics": procedure.names,
        "largest": procedure.names[int(np.argmax(studentised[0]))],
    }
    return HypothesisTest(
        float(statistics[0]),
        *decide(statistics, level),
        level,
        jnp.asarray(statistics[1:]),
        problem.prior.names,
        jnp.asarray(observed.theta),
        jnp.asarray(replicates.theta),
        calls,
        about,
    )


def _tell(test: HypothesisTest, converged: bool, rows: int, resamples: int) -> tuple[str, ...]:
    """What is wrong with the fits of a test, to the observed data and to replicates."""
    made = len(test.null)
    return (
        *tell_interruption(made, resamples, "replicates"),
        *tell_unfinished_fits(converged, test.about["not_converged"], made),
        *tell_failed_replicates(test.about["failed"], made),
        *tell_few_rows("observed", rows, test.rejected),
    )
