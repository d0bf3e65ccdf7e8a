"""What a goodness-of-fit test will cost in simulations, before any is made."""

from typing import Any, NamedTuple

from owlfi._tools.checks import as_count
from owlfi.inference.search.newton import STEPS
from owlfi.problem.problem import Problem
from owlfi.problem.rules import Rule
from owlfi.testing.adam import Adam
from owlfi.testing.adam import evaluations as adam_evaluations
from owlfi.testing.calibration import BANDWIDTHS, check_level
from owlfi.testing.goodness_of_fit import SEARCHED, STARTS, check, fine, is_coarse


class Cost(NamedTuple):
    """Simulator calls of a test, those by which a rule tunes itself included."""

    expected: int
    at_most: int


def plan(
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
) -> Cost:
    """What `goodness_of_fit` with the same options will cost, without simulating anything.

    expected: where a search from the estimate takes 4 steps, and one from elsewhere 15.
    at_most: no test takes more.

    >>> import jax
    >>> import owlfi
    >>> model = owlfi.models.g_and_k()
    >>> x = model(model.theta, owlfi.iid(jax.random.key(0), 100, model.measure))
    >>> plan(owlfi.Problem(model, x), owlfi.VStatistic(m=32), theta=model.theta)
    Cost(expected=26432, at_most=26432)
    """
    check(problem, rule, aggregate, theta, search)
    bootstrap, _ = check_level(bootstrap, level, "bootstrap")
    designs, restarts = as_count("designs", designs), as_count("restarts", restarts, 0)
    m: int = rule.m  # type: ignore[attr-defined]
    slopes = 2 * len(problem.prior.names) + 1 if problem.simulator.on_host else 1
    shared = len(BANDWIDTHS) if aggregate else 1

    def cost(warm: int, far: int, statistic: int) -> int:
        if theta is not None:
            fit = first = 0
        elif isinstance(search, Adam):
            fit, first = adam_evaluations(search), slopes
        else:
            fit = slopes * (warm + restarts * far)
            compared, searched = max(STARTS, 1 + restarts), max(SEARCHED, 1 + restarts)
            groups = -(-searched // (1 + restarts))
            first = slopes + compared + groups * (slopes * (1 + restarts) * far + statistic)
        sets = (1 + bootstrap) * m * (fit + statistic)
        if theta is None and is_coarse(rule, designs):
            sets += fine(rule) * slopes * warm
        tuning = designs * shared * rule.tuning_calls
        return tuning + m * first + sets + bootstrap * len(problem.observed)

    return Cost(cost(4, 15, 1), cost(STEPS + 1, STEPS + 1, shared))
