"""What a goodness-of-fit test will do, as far as it is known before the first simulation."""

from typing import NamedTuple

from owlfi._tools.checks import as_count, as_truth
from owlfi.problem.problem import Problem, as_problem
from owlfi.problem.rules import Rule, as_rule
from owlfi.testing.p_values import BANDWIDTHS, check_level, check_rows, check_varies
from owlfi.testing.searches import Search

_FINE = 1024  # points, or four times those of the rule


class Settings(NamedTuple):
    """What a test will do, as far as it is known beforehand."""

    resamples: int
    level: float
    factors: tuple[float, ...]
    """Of the lengthscale of k, one for each statistic."""
    designs: int
    fine: int
    """Points of one more search, 0 where none is made."""
    retune: bool
    """Whether weights are tuned to a first estimate."""


def check_settings(
    problem: Problem,
    rule: Rule,
    search: Search,
    resamples: int,
    level: float,
    aggregate: bool,
    designs: int,
    retune: bool = False,
) -> Settings:
    """Raises ValueError for what can be known to be wrong before the first simulation."""
    problem, rule = as_problem(problem), as_rule(rule)
    check_rows("observed", len(problem.observed))
    check_varies(problem.observed)
    search.check(problem)
    if as_truth("retune", retune):
        rule.check_weighted("retune=True")
    factors = BANDWIDTHS if as_truth("aggregate", aggregate) else (1.0,)
    designs = as_count("designs", designs)
    # One design moves all estimates alike, a coarse one by about as much as the data move them.
    coarse = search.refines or rule.independent
    refined = search.composite and designs == 1 and coarse
    fine = max(_FINE, 4 * 2 ** (rule.m - 1).bit_length()) if refined else 0
    return Settings(*check_level(resamples, level), factors, designs, fine, retune)
