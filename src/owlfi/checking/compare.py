"""Which of several models is nearest to the data? Differences of MMD² at estimated parameters.

Where models differ at their best, the difference is asymptotically normal, and estimating their
parameters changes it by less than the data do (Vuong 1989). Where they are the same there, as those
that are nested may be, it is not: both have to be told apart first.
"""

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float, Key

from owlfi._tools.arrays import as_jax
from owlfi._tools.checks import as_kind
from owlfi._tools.keys import numpy_generator, split_key
from owlfi.checking.rival import (
    Rival,
    fit_rival,
    measure_apart,
    slopes_of_difference,
    sum_own_terms,
)
from owlfi.problem.problem import Problem, as_problem
from owlfi.problem.rules import Rule, as_rule
from owlfi.results import Comparison, announce
from owlfi.results.comparison import adjust_pairs
from owlfi.testing.p_values import check_level, check_rows

_FEW_ROWS = 50
_DISAGREE = 1.6  # between the error by refits and by rows
_FAILED = 0.05


def compare(
    key: Key[Array, ""],
    problems: dict[str, Problem],
    rule: Rule,
    *,
    resamples: int = 200,
    level: float = 0.05,
) -> Comparison:
    """Which model is nearest to the data, and whether the data can tell.

    problems: the models by name, each a `Problem` with the same observations. All are compared by
        the data kernel of the first.
    resamples: B, how many times the rows are weighted at random (Dirichlet) and all models fitted
        again, which gives the errors of the differences.
    level: that some pair of equally near models is said to differ at most so often.

    Two models are said to differ where the squared MMD between them is larger than refits explain,
    and one is nearer by more than refits explain: p is the larger of both, adjusted for all pairs
    by Holm's method. Nested models that are equal at their best fail the first. Refits are moved
    as far as the choice of the points moves fits.

    Raises ValueError for fewer than two problems, other observations, columns that do not fit, a B
    too small for the level, discrete parameters, and where most simulations at an estimate are not
    finite; fewer are left out, with a warning.

    >>> import jax, owlfi
    >>> model = owlfi.models.g_and_k()
    >>> skewed, normal = (model.fix(theta_3=number, theta_4=number) for number in (0.1, 0.0))
    >>> x = skewed([3.0, 1.0], owlfi.iid(jax.random.key(0), 500, model.measure))
    >>> problems = {"skewed": owlfi.Problem(skewed, x), "normal": owlfi.Problem(normal, x)}
    >>> rule = owlfi.OptimallyWeighted(m=32, base_kernel=owlfi.Matern(2.5))
    >>> owlfi.compare(jax.random.key(1), problems, rule, resamples=50).undecided
    ('normal',)
    """
    named = _as_problems(problems)
    first = next(iter(named.values()))
    resamples, level = check_level(resamples, level)
    as_rule(rule).check_weighted("compare")
    x = first.observed
    share_key, *keys = split_key(key, 1 + len(named))
    shares = as_jax(numpy_generator(share_key).dirichlet(np.ones(len(x)), resamples))
    rivals = [
        _fit(name, k, problem, rule, shares)
        for k, (name, problem) in zip(keys, named.items(), strict=True)
    ]
    p_values = np.ones((len(named), len(named)))
    told: list[str] = []
    for i, j in combinations(range(len(named)), 2):
        found = judge(rivals[i], rivals[j])
        p_values[i, j] = p_values[j, i] = found.p_value
        told += _tell_disagreement(tuple(named)[i], tuple(named)[j], found)
    own_term = float(first.data_term(unbiased=True))
    own_terms = sum_own_terms(first.data_kernel, x, shares)
    comparison = Comparison(
        tuple(named),
        as_jax(np.array([_estimate(rival) + own_term for rival in rivals])),
        as_jax(np.array([np.nanstd(rival.values + own_terms) for rival in rivals])),
        as_jax(adjust_pairs(p_values)),
        level,
        sum(rival.calls for rival in rivals),
        {
            "method": "comparison of models",
            "estimates": {
                name: dict(zip(problem.prior.names, np.asarray(r.fit.theta).tolist(), strict=True))
                for (name, problem), r in zip(named.items(), rivals, strict=True)
            },
        },
        (*_tell_fits(named, rivals), *told, *_tell_few(len(x))),
    )
    return announce(comparison)


def _fit(
    name: str, key: Key[Array, ""], problem: Problem, rule: Rule, shares: Float[Array, "b n"]
) -> Rival:
    try:
        return fit_rival(key, problem, rule, shares)
    except ValueError as error:
        raise ValueError(f"problems[{name!r}]: {error}") from error
    except Exception as error:  # of its simulator
        error.add_note(f"in problems[{name!r}]")
        raise


class Judged(NamedTuple):
    """What is known of a pair."""

    difference: float
    """MMD² of the first less that of the second."""
    error: float
    apart: float
    """The p-value of both being the same at their best."""
    nearer: float
    """That of both being equally near, where they differ."""
    error_by_rows: float
    """The error by the formula for given parameters, which should agree where they differ."""

    @property
    def p_value(self) -> float:
        return max(self.apart, self.nearer)


def judge(a: Rival, b: Rival) -> Judged:
    """Whether two models differ, and one is nearer."""
    drawn = a.values - b.values
    known = drawn[np.isfinite(drawn)]
    difference = _estimate(a) - _estimate(b)
    moved = np.abs(known - known.mean())
    apart, by_chance = measure_apart(a, b)
    by_rows = np.std(slopes_of_difference(a, b)) / np.sqrt(a.fit.objective.n)
    return Judged(
        difference,
        float(known.std()),
        _share_beyond(apart, by_chance[np.isfinite(drawn)]),
        _share_beyond(abs(difference), moved),
        float(by_rows),
    )


def _share_beyond(observed: float, null: Float[np.ndarray, " b"]) -> float:
    return float((1 + np.sum(null >= observed)) / (1 + len(null)))


def _estimate(rival: Rival) -> float:
    """MMD² at the best parameters, less the bias of fitting that refits show."""
    return rival.unbiased_value - (float(np.nanmean(rival.values)) - rival.value)


def _as_problems(problems: Any) -> dict[str, Problem]:
    """With one data kernel for all."""
    as_kind("problems", problems, dict, "problems by name, such as {'a': Problem(...), ...}")
    if len(problems) < 2:
        raise ValueError(f"problems must hold at least two, got {list(problems)}")
    first, *others = (as_problem(problem) for problem in problems.values())
    check_rows("observed", len(first.observed))
    for name, other in zip(list(problems)[1:], others, strict=True):
        if not np.array_equal(np.asarray(first.observed), np.asarray(other.observed)):
            raise ValueError(
                f"problems[{name!r}] has other observations than the first: shapes "
                f"{other.observed.shape} and {first.observed.shape}; give all the same data and "
                "the same summaries"
            )
    k = first.data_kernel
    return {str(name): problem.with_kernel(k) for name, problem in problems.items()}


def _tell_fits(named: dict[str, Problem], rivals: list[Rival]) -> list[str]:
    told = []
    for name, rival in zip(named, rivals, strict=True):
        told += [f"{name}: {sentence}" for sentence in rival.fit.warnings]
        failed = float(np.mean(~np.isfinite(rival.values)))
        if failed > _FAILED:
            told.append(
                f"{name}: {failed:.0%} of the fits to reweighted data failed and are left out, so "
                "that errors may be too small; mend the generator, or narrow the prior"
            )
    return told


def _tell_disagreement(first: str, second: str, found: Judged) -> list[str]:
    """Where models differ clearly, both errors of their difference should be alike."""
    ratio = found.error / found.error_by_rows if found.error_by_rows else 1.0
    if found.apart > 0.01 or 1 / _DISAGREE <= ratio <= _DISAGREE:
        return []
    return [
        f"The error of the difference between {first} and {second} is {ratio:.1f} times that of "
        "given parameters: fits to reweighted data move far, so that p is rough; take more rows, "
        "narrower priors, or more points"
    ]


def _tell_few(rows: int) -> tuple[str, ...]:
    if rows >= _FEW_ROWS:
        return ()
    return (f"Few rows: of {rows} the p-values, which hold for many, are rough; give more",)
