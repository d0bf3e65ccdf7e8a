"""What a goodness-of-fit test will cost in simulations, before any is made."""

from typing import Any, NamedTuple

from owlfi.inference.search.newton import STEPS
from owlfi.problem.problem import Problem
from owlfi.problem.rules import Rule
from owlfi.problem.simulations import CHECK_CALLS, MOST_CHECK_CALLS
from owlfi.testing.searches import Adam, as_search
from owlfi.testing.settings import check_settings

_NEAR, _FAR = 4, 15  # steps that searches mostly take, from the estimate and from elsewhere


class Cost(NamedTuple):
    """Simulator calls of a test, those by which a rule tunes itself included."""

    expected: int
    at_most: int


def plan_goodness_of_fit(
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
) -> Cost:
    """What `goodness_of_fit` with the same options will cost, without simulating anything.

    expected: where a search from the estimate takes 4 steps, and one from elsewhere 15.
    at_most: no test takes more.

    >>> import jax
    >>> import owlfi
    >>> model = owlfi.models.g_and_k()
    >>> x = model(model.theta, owlfi.iid(jax.random.key(0), 100, model.measure))
    >>> problem, rule = owlfi.Problem(model, x), owlfi.VStatistic(m=32)
    >>> plan_goodness_of_fit(problem, rule, theta=model.theta)
    Cost(expected=26436, at_most=26440)
    """
    way = as_search(search, theta, restarts)
    settings = check_settings(problem, rule, way, resamples, level, aggregate, designs, retune)
    simulator, m, shared = problem.simulator, rule.m, len(settings.factors)

    def count(near: int, far: int, statistic: int, check: int, *, most: bool) -> int:
        """Where all statistics of a data set take so many rows, and the check of the generator."""
        wide = way.groups * (way.minimise_calls(simulator, m, far, far) + statistic)
        each = way.minimise_calls(simulator, m, near, far) + statistic
        tuning = settings.designs * shared * rule.tuning_calls(problem) or check
        refined = way.refine_calls(simulator, settings.fine, near, most=most)
        replicates = (1 + settings.resamples) * each + settings.resamples * len(problem.observed)
        began = way.start_calls(simulator, m, far, most=most)
        if settings.retune:
            began = 2 * began + settings.designs * shared * (m + rule.tuning_calls(problem))
        return tuning + began + wide + refined + replicates

    return Cost(
        count(_NEAR, _FAR, m, CHECK_CALLS, most=False),
        count(STEPS + 1, STEPS + 1, m * shared, MOST_CHECK_CALLS, most=True),
    )
