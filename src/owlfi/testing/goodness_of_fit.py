"""Could this model, at any parameter, have produced the data? Algorithm 1 of the paper.

The parametric bootstrap: data sets simulated at the estimate go through the procedure that the
observed data went through, fit included, and their statistics show what to expect of a true model.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from os import cpu_count
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from owlfi._tools.checks import as_array, as_count
from owlfi._tools.keys import as_key
from owlfi._tools.progress import collect
from owlfi.inference.minimum_distance import candidates, points_are_independent, searched
from owlfi.inference.search.finite_differences import simulated_with_slopes
from owlfi.inference.search.objective import Objective, objective_of
from owlfi.kernels import RadialKernel
from owlfi.kernels.median import median_heuristic
from owlfi.points.sequences import sobol
from owlfi.problem.problem import Problem
from owlfi.problem.rules import Rule
from owlfi.problem.simulator import Simulator
from owlfi.results import HypothesisTest
from owlfi.testing.adam import Adam, check_adam
from owlfi.testing.calibration import (
    BANDWIDTHS,
    check_level,
    check_rows,
    check_varies,
    largest_studentised,
    verdict,
)
from owlfi.testing.procedure import (
    Designs,
    Outcome,
    Procedure,
    applied,
    check_rule,
    check_slopes,
    rescaled,
)
from owlfi.weights.quadrature import Quadrature, unweighted

STARTS, SEARCHED = 16, 8  # compared on the observed data, and searched to the end
_FINE = 1024  # points, or four times those of the rule


def goodness_of_fit(
    key: Key[Array, ""],
    problem: Problem,
    rule: Rule,
    *,
    theta: Any = None,
    bootstrap: int = 200,
    level: float = 0.05,
    aggregate: bool = False,
    designs: int = 1,
    restarts: int = 1,
    search: str | Adam = "newton",
    progress: bool = False,
) -> HypothesisTest:
    """Test whether the model could have produced the data, with any parameters or with `theta`.

    theta: (p,), for the simple hypothesis that these are the parameters; where left out, they are
        estimated, from the data and from every replicate alike.
    bootstrap: B, how many data sets are simulated; p = (1 + k) / (1 + B).
    aggregate: take the largest studentised statistic over lengthscales of k from 0.35 to 2 times
        the one of the problem, each with weights of its own: it sees more kinds of misfit.
    designs: how many the rule draws. All fits share one (where its points are independent and
        equally weighted, replicates are simulated at an estimate on many more); of several, each
        fit and each statistic takes one at random, as Algorithm 1 has it.
    restarts: searches besides that from the estimate, which is the best of 8 on the observed data.
    search: "newton", or `Adam()` for Algorithm 2 of the paper.
    progress: show a bar; Ctrl-C makes the test with the replicates that are finished.

    The model must change smoothly with its parameters. Where the problem chose k by the median, so
    does every replicate. Those whose fit fails count as +∞, which only makes p larger.

    Raises ValueError for fewer than 5 observations, a B too small for the level, discrete
    parameters, a model that is piecewise constant in one, an aggregate over a kernel without a
    lengthscale, Adam with a simulator that is no JAX function, and where the fit to the data fails.

    >>> import owlfi
    >>> model = owlfi.models.g_and_k().fix(theta_3=0.1, theta_4=0.1)
    >>> x = model([3.0, 1.0], owlfi.iid(jax.random.key(0), 500, model.measure))
    >>> rule = owlfi.OptimallyWeighted(m=32, kernel=owlfi.Matern(2.5))
    >>> test = owlfi.goodness_of_fit(jax.random.key(1), owlfi.Problem(model, x), rule, bootstrap=50)
    >>> test.rejected, test.theta.round(0)
    (False, Array([3., 1.], dtype=float64))
    """
    check(problem, rule, aggregate, theta, search)
    bootstrap, level = check_level(bootstrap, level, "bootstrap")
    designs, restarts = as_count("designs", designs), as_count("restarts", restarts, 0)
    search = search if theta is None else "none"
    factors = BANDWIDTHS if aggregate else (1.0,)
    design_key, start_key, observed_key, key = jax.random.split(as_key(key), 4)
    drawn = _drawn(design_key, problem, rule, designs, factors)
    objective = objective_of(problem, drawn.fit[0])
    begun = _begun(start_key, problem, objective, drawn.fit[0], theta, search, restarts)
    procedure = Procedure(objective, drawn.bank, begun.restarts, factors, search)
    observed = _observed(observed_key, problem, procedure, begun.starts)
    refined_key = jax.random.fold_in(design_key, designs)
    law, more = _law(refined_key, problem, procedure, rule, observed[-1])
    replicates = _replicates(key, problem, procedure, law, bootstrap, progress)
    check_level(len(replicates.theta), level, "bootstrap")
    calls = drawn.calls + begun.calls + more
    return _result(problem, procedure, observed, replicates, level, calls)


def _observed(
    key: Key[Array, ""], problem: Problem, procedure: Procedure, starts: Float[Array, "r p"]
) -> list[Outcome]:
    """From all starts, then, as the replicates are, from the estimate; the last one counts.

    An estimate in another minimum than the lowest would have replicates that fit too well.
    """
    if procedure.search != "newton":
        found = [applied(procedure, key, problem.observed, 1.0, starts[0])]
    else:
        found = _searched_widely(key, problem, procedure, starts)
        best = min(found, key=lambda outcome: np.nan_to_num(outcome.value, nan=np.inf))
        found.append(applied(procedure, key, problem.observed, 1.0, jnp.asarray(best.theta)))
    if not np.isfinite(found[-1].statistics).all():
        raise ValueError(
            f"the fit to the observations failed at theta = {found[-1].theta}: y is NaN or "
            "infinite; mend the generator or narrow the prior"
        )
    return found


def _searched_widely(
    key: Key[Array, ""], problem: Problem, procedure: Procedure, starts: Float[Array, "r p"]
) -> list[Outcome]:
    """As many starts at a time as a replicate has: one program serves both."""
    size = 1 + len(procedure.restarts)
    found = []
    for first in range(0, len(starts), size):
        group = starts[np.arange(first, first + size) % len(starts)]
        some = eqx.tree_at(lambda p: p.restarts, procedure, group[1:])
        found.append(applied(some, key, problem.observed, 1.0, group[0]))
    return found


def is_coarse(rule: Rule, designs: int) -> bool:
    """Whether the design moves all estimates alike, by about as much as the data move them."""
    return designs == 1 and points_are_independent(rule)


def _law(
    key: Key[Array, ""], problem: Problem, procedure: Procedure, rule: Rule, observed: Outcome
) -> tuple[Float[Array, " p"], int]:
    """The theta of the replicates, and its calls: the estimate, on many points if its own are few.

    Replicates simulated at one that a coarse design has moved would be moved twice.
    """
    theta = jnp.asarray(observed.theta)
    if procedure.search == "none" or not is_coarse(rule, len(procedure.designs.points)):
        return theta, 0
    quadrature = unweighted(sobol(key, fine(rule), problem.simulator.measure))
    best = searched(objective_of(problem, quadrature), theta)
    calls = quadrature.m * int(best.evaluations)
    return (best.theta if bool(jnp.isfinite(best.value)) else theta), calls


def fine(rule: Rule) -> int:
    """How many points the estimate of a coarse rule is refined on."""
    m: int = rule.m  # type: ignore[attr-defined]
    return max(_FINE, 4 * 2 ** (m - 1).bit_length())


def _tried(objective: Objective, start: Float[Array, " p"]) -> int:
    """The calls of seeing that the model changes with every parameter."""
    _, slopes, count = simulated_with_slopes(objective, start)
    check_slopes(objective.simulator.parameters, start, slopes)
    return count * len(objective.points)


def check(problem: Problem, rule: Rule, aggregate: bool, theta: Any, search: str | Adam) -> None:
    """What can be known to be wrong before the first simulation."""
    check_rule(rule)
    if isinstance(search, Adam):
        check_adam(search, problem.simulator)
    elif search != "newton":
        raise ValueError(f"search must be 'newton' or owlfi.Adam(...), got {search!r}")
    check_rows("observed", len(problem.observed))
    check_varies(problem.observed)
    if aggregate and not isinstance(problem.kernel, RadialKernel):
        raise ValueError(
            "aggregate=True varies the lengthscale of k, which "
            f"{type(problem.kernel).__name__} has not; use SquaredExponential, Matern, ..."
        )
    p = len(problem.prior.names)
    if theta is None:
        problem.prior.check_continuous("goodness_of_fit")
    elif as_array("theta", theta).shape != (p,):
        raise ValueError(
            f"theta must hold {p} numbers ({', '.join(problem.prior.names)}), got {theta}"
        )


class _Drawn(NamedTuple):
    """What the rule gave: designs to fit on, all of them stacked, and the calls of its tuning."""

    fit: list[Quadrature]
    bank: Designs
    calls: int


def _drawn(
    key: Key[Array, ""], problem: Problem, rule: Rule, count: int, factors: tuple[float, ...]
) -> _Drawn:
    keys = jax.random.split(key, count)
    fit = [rule.quadrature(k, problem) for k in keys]
    by_factor = [fit]
    if len(factors) > 1:
        by_factor = [
            fit if factor == 1 else [rule.quadrature(k, _scaled(problem, factor)) for k in keys]
            for factor in factors
        ]
    points = jnp.stack([jnp.stack([q.points for q in part]) for part in by_factor], 1)
    weights = jnp.stack([jnp.stack([q.weights for q in part]) for part in by_factor], 1)
    if bool((points == points[:, :1]).all()):
        points = points[:, :1]
    bank = Designs(
        jnp.stack([q.points for q in fit]), jnp.stack([q.weights for q in fit]), points, weights
    )
    tuned = [q.pilot for part in by_factor for q in part if q.pilot is not None]
    return _Drawn(fit, bank, sum(pilot.calls for pilot in tuned))


def _scaled(problem: Problem, factor: float) -> Problem:
    return eqx.tree_at(lambda p: p.kernel, problem, rescaled(problem.kernel, factor))


class _Begun(NamedTuple):
    """Where searches begin, and the simulator calls of finding out.

    starts: for the observed data, the best first.
    restarts: for every data set, besides the estimate.
    """

    starts: Float[Array, "s p"]
    restarts: Float[Array, "r p"]
    calls: int


def _begun(
    key: Key[Array, ""],
    problem: Problem,
    objective: Objective,
    quadrature: Quadrature,
    theta: Any,
    search: str | Adam,
    restarts: int,
) -> _Begun:
    if theta is not None:
        given = as_array("theta", theta)
        return _Begun(given[None], given[None][:0], 0)
    if isinstance(search, Adam):
        trials = problem.prior.starts(key, search.trials)
        return _Begun(trials, trials, _tried(objective, trials[0]))
    tried, calls = candidates(key, problem, objective, quadrature, max(STARTS, 1 + restarts))
    calls -= quadrature.pilot.calls if quadrature.pilot is not None else 0  # counted elsewhere
    calls += _tried(objective, tried[0])
    return _Begun(tried[: max(SEARCHED, 1 + restarts)], tried[1 : 1 + restarts], calls)


def _replicates(
    key: Key[Array, ""],
    problem: Problem,
    procedure: Procedure,
    theta: Array,
    count: int,
    progress: bool,
) -> Outcome:
    """Outcomes of data simulated at theta; those finished when interrupted."""
    n, host = len(problem.observed), problem.simulator.on_host
    simulated = _simulated if host else _simulated_in_jax

    def replicate(number: int) -> Outcome:
        own = _own_keys(key, number)
        x = simulated(problem.simulator, own[0], theta, n)
        return applied(procedure, own[1], x, _scale(problem, x), theta)

    def steps() -> Iterator[Outcome]:
        with ThreadPoolExecutor(1 if host else cpu_count()) as threads:
            try:
                yield from threads.map(replicate, range(count))
            finally:
                threads.shutdown(cancel_futures=True)

    done = collect(steps(), count, "Parametric bootstrap", show=progress)
    return jax.tree.map(lambda *leaves: np.stack(leaves), *done)


@jax.jit
def _own_keys(key: Key[Array, ""], number: int) -> Key[Array, " 2"]:
    return jax.random.split(jax.random.fold_in(key, number))


def _simulated(
    simulator: Simulator, key: Key[Array, ""], theta: Array, n: int
) -> Float[Array, "n d"]:
    """Fresh independent draws of the model, never points of a design."""
    return simulator.rows(theta, simulator.measure.sample(key, n))


_simulated_in_jax = eqx.filter_jit(_simulated)


def _scale(problem: Problem, x: Float[Array, "n d"]) -> float:
    """The lengthscale of a data set over that of the observed; NaN where it has none."""
    if not problem.median:
        return 1.0
    return _lengthscale(np.asarray(x)) / float(problem.kernel.lengthscale)  # type: ignore[attr-defined]


def _lengthscale(rows: np.ndarray) -> float:
    try:
        return float(median_heuristic(rows))
    except ValueError:  # not finite, or half of all rows equal
        return np.nan


def _result(
    problem: Problem,
    procedure: Procedure,
    observed: list[Outcome],
    replicates: Outcome,
    level: float,
    calls: int,
) -> HypothesisTest:
    by_factor = np.concatenate([observed[-1].statistics[None], replicates.statistics])
    statistics = largest_studentised(by_factor) if len(procedure.factors) > 1 else by_factor[:, 0]
    evaluations = int(sum(o.evaluations for o in observed) + replicates.evaluations.sum())
    b, m = len(replicates.theta), procedure.designs.points.shape[1]
    about = {
        "method": "simple" if procedure.search == "none" else "composite",
        "failed": int(np.isinf(by_factor[1:, 0]).sum()),
        "not_converged": int((~replicates.converged).sum()),
        "designs": len(procedure.designs.points),
        "lengthscale_factors": list(procedure.factors),
    }
    return HypothesisTest(
        float(statistics[0]),
        *verdict(statistics, level),
        level,
        jnp.asarray(statistics[1:]),
        problem.prior.names,
        jnp.asarray(observed[-1].theta),
        jnp.asarray(replicates.theta),
        calls + evaluations * m + b * len(problem.observed),
        about,
    )
