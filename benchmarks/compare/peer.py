"""What a peer is, and what it answers."""

import abc
import importlib
from typing import NamedTuple

import numpy as np

from benchmarks.compare.tasks import Task

LEVEL = 0.9
BUDGETS = (1_000, 10_000, 100_000)
FEWEST_SETS = 50  # below, neither a posterior can be learned nor a population be chosen


class Answer(NamedTuple):
    """An estimate, the ends of its 90% intervals, and what they took.

    calls: simulated rows. derivatives: of a simulated row by one parameter, where a method takes
    them. training: seconds of a network that other data sets share.
    """

    theta: np.ndarray
    low: np.ndarray
    high: np.ndarray
    calls: int
    derivatives: int = 0
    training: float = 0.0


class Peer(abc.ABC):
    """A method of some library, which answers for itself.

    about: its settings, for the page. needs: modules without which it cannot run.
    """

    name: str
    about: str
    needs: tuple[str, ...] = ()
    budgets: tuple[int, ...] = BUDGETS
    data_sets: int = 50

    def find_fault(self) -> str:
        """Why it cannot run here; nothing where it can."""
        try:
            for module in self.needs:
                importlib.import_module(module)
        except Exception as error:  # libraries fail at import in many ways
            return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        return ""

    def suits(self, task: Task, spoilt: bool) -> bool:
        """Whether there is something to do."""
        return True

    @abc.abstractmethod
    def infer(self, task: Task, x: np.ndarray, budget: int, seed: int) -> Answer:
        """From the rows x (n, d), with at most so many simulated rows."""


def rows_a_set(task: Task, budget: int) -> int:
    """How many rows a simulated data set has: n, or fewer where that leaves too few data sets."""
    return min(task.n, budget // FEWEST_SETS)


def from_draws(draws: np.ndarray, calls: int, training: float = 0.0, weights=None) -> Answer:
    """The mean and the central interval of draws (k, p), perhaps weighted."""
    shares = np.full(len(draws), 1.0) if weights is None else np.asarray(weights, float)
    shares = shares / shares.sum()
    ends = [_quantile(draws, shares, level) for level in ((1 - LEVEL) / 2, (1 + LEVEL) / 2)]
    return Answer(shares @ draws, *ends, calls, training=training)


def _quantile(draws: np.ndarray, shares: np.ndarray, level: float) -> np.ndarray:
    """Of each column."""
    order = np.argsort(draws, axis=0)
    heights = np.cumsum(shares[order], axis=0)
    places = np.minimum((heights < level).sum(0), len(draws) - 1)
    return np.take_along_axis(draws, order, axis=0)[places, np.arange(draws.shape[1])]
