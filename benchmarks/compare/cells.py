"""What the fits of a cell amount to: errors, coverage, calls and seconds."""

from collections.abc import Sequence
from statistics import mean, median
from typing import NamedTuple

import numpy as np

from benchmarks.compare.records import Record
from benchmarks.compare.tasks import Task


class Cell(NamedTuple):
    """The fits of one peer for one task, kind of data and budget.

    rmse: over the prior's standard deviation, mean over the parameters; `error` is its standard
    error. A fit without an answer counts as the prior's mean, and covers nothing.
    """

    task: str
    spoilt: bool
    budget: int
    peer: str
    data_sets: int
    failed: int
    rmse: float
    error: float
    coverage: float
    calls: float
    derivatives: float
    seconds: float


def gather(tasks: Sequence[Task], peers: Sequence[str], records: list[Record]) -> list[Cell]:
    """The cells, in the order of tasks, data, budgets and peers."""
    groups: dict[tuple[str, bool, int, str], list[Record]] = {}
    for record in records:
        key = record["task"], record["spoilt"], record["budget"], record["peer"]
        groups.setdefault(key, []).append(record)
    places = {task.name: i for i, task in enumerate(tasks)}
    order = sorted(groups, key=lambda k: (places[k[0]], k[1], k[2], peers.index(k[3])))
    return [_summarise(tasks[places[key[0]]], key, groups[key]) for key in order]


def _summarise(task: Task, key: tuple[str, bool, int, str], fits: list[Record]) -> Cell:
    low, high = task.bounds
    good = [fit for fit in fits if "failure" not in fit]
    centre, truth = (low + high) / 2, np.array(task.truth)
    thetas = np.array([fit.get("theta", centre) for fit in fits])
    squares = ((thetas - truth) / ((high - low) / 12**0.5)) ** 2
    inside = [(np.array(f["low"]) <= truth) & (truth <= np.array(f["high"])) for f in good]
    covered = float(np.sum(inside)) / (len(fits) * len(truth))
    return Cell(
        *key,
        len(fits),
        len(fits) - len(good),
        _rmse(squares),
        _jackknife(squares),
        covered,
        mean([fit["calls"] for fit in good] or [0]),
        mean([fit["derivatives"] for fit in good] or [0]),
        median(fit["seconds"] for fit in fits),
    )


def _rmse(squares: np.ndarray) -> float:
    return float(np.sqrt(squares.mean(0)).mean())


def _jackknife(squares: np.ndarray) -> float:
    """The standard error of the RMSE of (data sets, parameters)."""
    count = len(squares)
    if count < 2:
        return float("nan")
    without = [_rmse(np.delete(squares, i, 0)) for i in range(count)]
    return float(np.std(without) * (count - 1) ** 0.5)
