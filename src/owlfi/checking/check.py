"""Predictive checks: does the fitted model give data like those observed? (Rubin 1984)"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float, Key

from owlfi._tools.arrays import as_jax
from owlfi._tools.checks import as_probability, brief, tell_failure
from owlfi._tools.keys import numpy_generator, split_key
from owlfi.checking.distances import column_kernel, embed_at, measure_each
from owlfi.problem.fresh_data import draw_data
from owlfi.problem.problem import Problem, as_problem
from owlfi.results import PredictiveCheck, announce
from owlfi.results.distribution import Distribution, as_distribution
from owlfi.testing.p_values import check_level, decide, largest_studentised

MMD, WORST = "squared MMD", "worst column"
REPLICATES = 200
_MOST_ROWS = 500  # compared by the kernel, in time that grows with their square
_REFERENCE, _SETS = 2000, 50  # rows that stand for the prediction, at so many draws
_KEPT = 500_000  # numbers of replicates, for pictures
_FAILED = 0.01
_SAME = 1e-12

Statistic = Callable[[Any], Any]


def check(
    key: Key[Array, ""],
    problem: Problem,
    result: Distribution,
    *,
    statistics: dict[str, Statistic] | None = None,
    replicates: int = REPLICATES,
    level: float = 0.05,
) -> PredictiveCheck:
    """Compare the observed data with data sets of the same size that the fitted model gives.

    result: an estimate or a posterior; each data set is simulated at a draw of it.
    statistics: functions of a data set (n, d) that give one number, by name; beside them there is
        the squared MMD to what is predicted, of all columns and of each.
    replicates: how many data sets.
    level: the probability of any warning where the model is right, at most.

    Of more than 500 rows the kernel compares 500, drawn once. The parameters were fitted to the
    same data, so that p-values are too large rather than too small; `goodness_of_fit` fits every
    replicate anew.

    Raises ValueError for a statistic that gives no finite number of a data set, too few replicates
    for the level, and where most replicates are not finite.

    >>> import jax, owlfi
    >>> model = owlfi.models.g_and_k().fix(theta_3=0.1, theta_4=0.1)
    >>> x = model([3.0, 1.0], owlfi.iid(jax.random.key(0), 500, model.measure))
    >>> rule = owlfi.OptimallyWeighted(m=32, base_kernel=owlfi.Matern(2.5))
    >>> problem = owlfi.Problem(model, x)
    >>> estimate = owlfi.minimum_distance(jax.random.key(1), problem, rule)
    >>> found = owlfi.check(jax.random.key(2), problem, estimate, statistics={"largest": np.max})
    >>> found.names, found.warnings
    (('squared MMD', 'largest'), ())
    """
    as_distribution("result", result, as_problem(problem).prior.names)
    functions, x = _as_statistics(statistics), np.asarray(problem.observed)
    own = np.array([_measure(name, f, x) for name, f in functions.items()])
    count, share = _check_share(replicates, level, len(functions) + min(2, x.shape[1]))
    data_key, reference_key, row_key = split_key(key, 3)
    y = _replicate(data_key, problem, result, count, len(x))
    reference = _replicate(reference_key, problem, result, _SETS, _REFERENCE // _SETS)
    rows = _choose_rows(row_key, len(x))
    near = _compare(problem, x[rows], y[:, rows], reference.reshape(-1, x.shape[1]))
    others = np.array([[_measure(name, f, each) for name, f in functions.items()] for each in y])
    others = others.reshape(len(y), -1)
    found = PredictiveCheck(
        (*near.statistics, *functions),
        as_jax(np.array([*(each[0] for each in near.statistics.values()), *own])),
        as_jax(np.column_stack([*(each[1:] for each in near.statistics.values()), others])),
        as_jax(np.array([*map(_upper, near.statistics.values()), *_two_sided(own, others)])),
        as_jax(x[rows]),
        as_jax(y[: max(1, _KEPT // y[0, rows].size), rows]),
        as_jax(near.row_scores),
        as_jax(near.column_p_values),
        count_calls(len(x), count),
        {
            "method": "predictive check",
            "columns": list(problem.columns),
            "rows": rows.tolist(),
            "failed": count - len(y),
        },
    )
    told = (*_tell_statistics(found, share), *_tell_failed(count - len(y), count))
    return announce(replace(found, warnings=told))


def count_calls(rows: int, replicates: int = REPLICATES) -> int:
    """How many rows a check of so many simulates."""
    return replicates * rows + _REFERENCE


class _Near(NamedTuple):
    """What the kernel says."""

    statistics: dict[str, Float[np.ndarray, " b"]]
    """By name, the observed one first."""
    row_scores: Float[np.ndarray, " n"]
    column_p_values: Float[np.ndarray, " d"]


def _compare(
    problem: Problem,
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "b n d"],
    reference: Float[np.ndarray, "r d"],
) -> _Near:
    data = np.concatenate([x[None], y])
    statistics = {MMD: measure_each(problem.data_kernel, data, reference)}
    columns = [
        measure_each(column_kernel(reference[:, j]), data[:, :, [j]], reference[:, [j]])
        for j in range(x.shape[1])
    ]
    if len(columns) > 1:
        statistics[WORST] = largest_studentised(np.stack(columns, 1))
    at_rows = embed_at(problem.data_kernel, x, data)
    spread = np.std(at_rows[1:], axis=0) + _SAME
    scores = (at_rows[0] - np.mean(at_rows[1:], axis=0)) / spread
    return _Near(statistics, scores, np.array([_upper(each) for each in columns]))


def _upper(statistics: Float[np.ndarray, " b"]) -> float:
    """The p-value of the first of statistics that are large where data are unlike."""
    return decide(statistics, 0.5).p_value


def _two_sided(observed: np.ndarray, replicated: np.ndarray) -> list[float]:
    """Of each statistic, large or small."""
    both = [np.array([own, *others]) for own, others in zip(observed, replicated.T, strict=True)]
    return [min(1.0, 2 * min(_upper(each), _upper(-each))) for each in both]


def _check_share(replicates: Any, level: Any, tests: int) -> tuple[int, float]:
    """The level of each of so many tests; ValueError where so few replicates cannot reach it."""
    share = as_probability("level", level) / tests
    return check_level(replicates, share / 2, "replicates")[0], share


def _draw_thetas(key: Any, problem: Problem, result: Distribution, count: int) -> np.ndarray:
    """Draws of the result inside the prior; the estimate itself where its errors are unknown."""
    draws = np.asarray(result.resample(key, count))
    draws = np.where(np.isfinite(draws).all(1, keepdims=True), draws, result.center)
    return np.clip(draws, *(np.asarray(end) for end in problem.prior.bounds))


def _replicate(
    key: Any, problem: Problem, result: Distribution, count: int, n: int
) -> Float[np.ndarray, "b n d"]:
    """Data sets of n rows, without those that are not finite."""
    theta_key, data_key = split_key(key)
    thetas = _draw_thetas(theta_key, problem, result, count)
    pairs = zip(split_key(data_key, count), thetas, strict=True)
    model, d = problem.simulator, problem.observed.shape[1]
    y = np.stack([draw_data(model, k, as_jax(t), n, d).rows for k, t in pairs])
    good = y[np.isfinite(y).all((1, 2))]
    if len(good) < count / 2:
        raise ValueError(
            f"{count - len(good)} of {count} replicated data sets hold NaN or infinite values; "
            "mend the generator, or see whether the result lies where the model makes sense"
        )
    return good


def _choose_rows(key: Any, n: int) -> np.ndarray:
    if n <= _MOST_ROWS:
        return np.arange(n)
    return np.sort(numpy_generator(key).choice(n, _MOST_ROWS, replace=False))


def _as_statistics(statistics: Any) -> dict[str, Statistic]:
    named = {} if statistics is None else statistics
    good = (
        isinstance(named, dict)
        and all(map(callable, named.values()))
        and not {MMD, WORST} & {*named}
    )
    if not good or not all(isinstance(name, str) for name in named):
        raise ValueError(
            "statistics must be functions of a data set by name, such as "
            f"{{'largest': np.max}}, other names than {MMD!r}, got {brief(statistics)}"
        )
    return named


def _measure(name: str, function: Statistic, data: np.ndarray) -> float:
    try:
        value = np.asarray(function(data), float)
    except Exception as error:  # of its own, or where it gives no number
        raise ValueError(
            f"statistics[{name!r}] must give one number of a data set {data.shape}, "
            f"{tell_failure(function, error)}"
        ) from error
    if value.size != 1 or not np.isfinite(value).all():
        raise ValueError(
            f"statistics[{name!r}] must give one finite number of a data set {data.shape}, got "
            f"{brief(value)}"
        )
    return float(value.reshape(()))


def _tell_statistics(found: PredictiveCheck, share: float) -> tuple[str, ...]:
    wrong = [name for name in found.names if found[name] <= share]
    listed = ", ".join(f"{name} (p = {found[name]:.2g})" for name in wrong)
    if not wrong:
        return ()
    bad = ", ".join(name for name, _ in found.worst_columns()) if WORST in wrong else ""
    columns = f"; the columns that fit worst are {bad}" if bad else ""
    return (
        f"The model does not give data like those observed: {listed}{columns}; look at plots.check "
        "for where, and change the model, or the summaries that it is compared by",
    )


def _tell_failed(failed: int, count: int) -> tuple[str, ...]:
    if failed <= _FAILED * count:
        return ()
    return (
        f"{failed:,} of {count:,} replicated data sets hold NaN or infinite values and are left "
        "out; mend the generator, or narrow the prior",
    )
