"""Is a method calibrated? Data sets simulated at known parameters, and the method on each."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Key

from owlfi._tools.arrays import as_jax
from owlfi._tools.blas import use_one_blas_thread
from owlfi._tools.checks import as_count, as_kind, as_probability, brief
from owlfi._tools.keys import as_key, fold_key, numpy_generator, split_key
from owlfi._tools.progress import collect
from owlfi.checking.health import describe
from owlfi.checking.joint_level import joint_level
from owlfi.checking.journal import Journal
from owlfi.problem.fresh_data import draw_data
from owlfi.problem.problem import Problem, as_problem
from owlfi.problem.rules import Rule, as_rule
from owlfi.problem.spending import repeat
from owlfi.results import Calibration, announce
from owlfi.results.distribution import Distribution, as_distribution
from owlfi.results.health import keep_quiet, tell_interruption

_GIVE_UP = 5  # data sets that fail before any succeeds
_PRIOR_DRAWS = 1024
_REASONS = 5  # that are kept
_ARRAYS = ("theta", "level", "score", "center", "spread")

Method = Callable[..., Any]


def calibrate(
    key: Key[Array, ""],
    problem: Problem,
    method: Method,
    rule: Rule,
    *,
    data_sets: int = 200,
    around: Distribution | None = None,
    rows: int | None = None,
    alarms: float = 0.02,
    workers: int | None = None,
    file: Any = None,
    progress: bool = False,
    **options: Any,
) -> Calibration:
    """How often the intervals of a method hold the truth, on data sets simulated for this.

    method: any function method(key, problem, rule, **options) that returns an Estimate or a
        Posterior: those of owlfi, or your own.
    data_sets: how many; each has its own parameters and noise.
    around: an estimate or a posterior, from which parameters are drawn; from the prior where left
        out. Of methods that use the prior, only draws from it tell whether they are calibrated.
    rows: of a data set; as many as were observed where left out.
    alarms: the probability of any warning where the method is exactly calibrated.
    workers: threads that data sets are spread over; a core each where the simulator is in JAX, 1
        where it is not. The answer is the same.
    file: where finished data sets are kept, so that the same call goes on after a kill, and a
        larger `data_sets` adds to them.
    progress: show a bar; Ctrl-C returns what is finished.

    Levels of the truths (simulation-based calibration), coverage, z-scores and shrinkage are known
    of each parameter, and the expected coverage by random points (TARP) of all of them together.
    Data sets with values that are not finite, and those on which the method raises ValueError or
    RuntimeError, are left out and counted in `about["failed"]`.

    Raises ValueError for a method that returns anything else, a file of another calibration, and
    where the first data sets all fail.

    >>> import owlfi
    >>> noise, prior = owlfi.Normal(), owlfi.Prior(mean=owlfi.Normal(0.0, 5.0))
    >>> model = owlfi.Simulator(lambda theta, u: theta[0] + u, noise, ["mean"], prior=prior)
    >>> problem = owlfi.Problem(model, model([1.3], owlfi.iid(jax.random.key(0), 80, noise)))
    >>> rule = owlfi.OptimallyWeighted(64, base_kernel=owlfi.SquaredExponential(1.0))
    >>> options = {"method": owlfi.minimum_distance, "rule": rule, "data_sets": 50}
    >>> found = owlfi.calibrate(jax.random.key(2), problem, **options)
    >>> found.warnings, bool(found.coverage(0.9)[0] > 0.75)
    ((), True)
    """
    trial = _Trial(
        as_key(key),
        as_problem(problem),
        _as_method(method),
        as_rule(rule),
        options,
        _as_source(problem, around),
        len(problem.observed) if rows is None else as_count("rows", rows, 2),
        np.asarray(problem.prior.widths()),
    )
    total, alarms = as_count("data_sets", data_sets, 2), as_probability("alarms", alarms)
    threads = problem.simulator.runtime.threads if workers is None else workers
    journal = Journal(file, trial.facts())
    missing = [number for number in range(total) if number not in journal.records]
    with keep_quiet():
        steps = _run(trial, missing, as_count("workers", threads), journal)
        if missing:
            collect(steps, len(missing), "Calibrating", show=progress)
    kept = [journal.records[number] for number in range(total) if number in journal.records]
    found = _gather(trial, kept)
    told = (*describe(found, alarms), *tell_interruption(len(kept), total, "data sets"))
    return announce(replace(found, warnings=told))


class _Trial(NamedTuple):
    """What is done for every data set."""

    key: Key[Array, ""]
    problem: Problem
    method: Method
    rule: Rule
    options: dict[str, Any]
    draw_theta: Callable[[Any], Any]
    rows: int
    units: Float[np.ndarray, " p"]

    def facts(self) -> dict[str, Any]:
        """What the answers follow from, and data that would show another simulator."""
        x = np.asarray(self.simulate(*self.keys_of(0)[:2])[1])
        return {
            "method": getattr(self.method, "__qualname__", type(self.method).__name__),
            "rule": repr(self.rule),
            "options": {name: repr(value) for name, value in self.options.items()},
            "rows": self.rows,
            "parameters": ", ".join(self.problem.prior.names),
            "data_kernel": "median" if self.problem.median else repr(self.problem.data_kernel),
            "first_row": x[0].tolist(),
        }

    def keys_of(self, number: int) -> list[Any]:
        """For theta, data, method, reference and ranks of one data set."""
        return split_key(fold_key(self.key, number), 5)

    def simulate(self, theta_key: Any, data_key: Any) -> tuple[Any, Any]:
        """Parameters, and data of them."""
        theta = as_jax(np.asarray(self.draw_theta(theta_key))[0])
        simulator, columns = self.problem.simulator, self.problem.observed.shape[1]
        return theta, draw_data(simulator, data_key, theta, self.rows, columns).rows

    def run(self, number: int, times: int = 0) -> dict[str, Any]:
        """One data set, as plain numbers; why it failed where it did.

        times: for how many data sets the cost is told, where it is worth a word.
        """
        theta_key, data_key, method_key, reference_key, rank_key = self.keys_of(number)
        began = perf_counter()
        theta, x = (np.asarray(part) for part in self.simulate(theta_key, data_key))
        if not np.isfinite(x).all():
            return {"failed": "the data are NaN or infinite"}
        try:
            data = self.problem.with_data(as_jax(x))
            with repeat(times):
                result = self.method(method_key, data, self.rule, **self.options)
        except (ValueError, ArithmeticError, RuntimeError) as error:  # mistakes of the call are not
            return {"failed": str(error)}
        as_kind("what method returned", result, Distribution, "an Estimate or a Posterior")
        reference = np.asarray(self.problem.prior.sample(reference_key, 1))[0]
        return compare_with_truth(rank_key, result, theta, reference, self.units) | {
            "seconds": perf_counter() - began
        }


def compare_with_truth(
    key: Any, result: Distribution, theta: np.ndarray, reference: np.ndarray, units: np.ndarray
) -> dict[str, Any]:
    """What was found beside the truth."""
    levels = result.level_of(theta)
    if not np.isfinite(levels).all():
        return {"failed": "the method gave NaN"}
    draw_key, level_key = split_key(key)
    uniform = numpy_generator(level_key).uniform(size=len(theta) + 1)
    joint, draws = joint_level(draw_key, result, theta, reference, units)
    return {
        "theta": theta.tolist(),
        "level": _among(levels, result.effective_draws, uniform[1:]).tolist(),
        "score": result.scores_of(theta).tolist(),
        "center": result.center.tolist(),
        "spread": result.spread.tolist(),
        "joint": float(_among(joint, draws, uniform[0])),
        "calls": int(result.calls),
        "warned": bool(result.warnings),
    }


def _among(share: Any, draws: float, uniform: Any) -> Any:
    """The level of a truth that has a share of so many draws below it: a random place among them.

    Of as many draws as there are, ranks of a calibrated method are uniform, ends included.
    """
    return share if np.isinf(draws) else (share * draws + uniform) / (draws + 1)


def _run(trial: _Trial, numbers: list[int], workers: int, journal: Journal) -> Iterator[None]:
    times = [len(numbers), *[0] * (len(numbers) - 1)]  # the first tells the cost of all
    with ThreadPoolExecutor(workers) as threads, use_one_blas_thread():
        try:
            records = threads.map(trial.run, numbers, times)
            for number, record in zip(numbers, records, strict=True):
                journal.add(number, record)
                _check_hope(journal)
                yield
        finally:
            threads.shutdown(cancel_futures=True)


def _check_hope(journal: Journal) -> None:
    reasons = [record.get("failed") for record in journal.records.values()]
    if len(reasons) >= _GIVE_UP and all(reasons):
        raise ValueError(
            f"the first {len(reasons)} data sets all failed ({reasons[0]}); see that the method "
            "works on one of them, and narrow the prior or mend the simulator"
        )


def _gather(trial: _Trial, records: list[dict[str, Any]]) -> Calibration:
    good = [record for record in records if "failed" not in record]
    reasons = [record["failed"] for record in records if "failed" in record]
    if not good:
        raise ValueError(
            f"all {len(reasons)} data sets failed ({reasons[0]}); mend the simulator, "
            "or narrow the prior"
        )
    thetas, levels, scores, centers, spreads = (
        as_jax(np.array([record[name] for record in good], float)) for name in _ARRAYS
    )
    prior, method = trial.problem.prior, trial.facts()["method"]
    return Calibration(
        prior.names,
        thetas,
        levels,
        scores,
        centers,
        spreads,
        as_jax(np.array([record["joint"] for record in good], float)),
        as_jax(np.std(prior.sample(jax.random.key(0), _PRIOR_DRAWS), axis=0)),
        as_jax(np.stack(prior.bounds)),
        sum(record["calls"] for record in good),
        {
            "method": f"calibration of {method}",
            "rule": repr(trial.rule),
            "rows": trial.rows,
            "failed": len(reasons),
            "reasons": reasons[:_REASONS],
            "warned": sum(record["warned"] for record in good),
            "seconds": float(sum(record["seconds"] for record in good)),
        },
    )


def _as_method(method: Any) -> Method:
    if not callable(method):
        raise ValueError(
            f"method must be a function such as owlfi.minimum_distance, got {brief(method)}"
        )
    return method


def _as_source(problem: Problem, around: Any) -> Callable[[Any], Any]:
    """What draws one theta (1, p) with a key."""
    if around is None:
        return lambda key: problem.prior.sample(key, 1)
    given = as_distribution("around", around, problem.prior.names)
    return partial(_draw_inside, given, [np.asarray(end) for end in problem.prior.bounds])


def _draw_inside(around: Distribution, ends: list[np.ndarray], key: Any) -> np.ndarray:
    draws = np.asarray(around.resample(key, 1))
    if not np.isfinite(draws).all():
        raise ValueError("around has no finite errors to draw from; give a prior that is narrower")
    return np.clip(draws, *ends)
