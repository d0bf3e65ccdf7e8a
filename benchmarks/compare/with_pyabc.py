"""pyABC: sequential Monte Carlo."""

import contextlib
import logging
import warnings

import numpy as np

from benchmarks.compare.peer import Answer, Peer, from_draws, rows_a_set
from benchmarks.compare.tasks import Purse, SpentError, Task


class SMC(Peer):
    """Of the summaries of whole data sets, generation after generation until the calls end."""

    name = "pyABC SMC"
    about = (
        "`ABCSMC` with `AdaptivePNormDistance(p=2)` of the summaries and the default median "
        "epsilon and normal transitions; a population of a tenth of the data sets that the budget "
        "allows, at least 10 and at most the default of 100; the last generation that is finished, "
        "or the nearest tenth of all data sets where the first is not"
    )
    needs = ("pyabc",)

    def infer(self, task: Task, x: np.ndarray, budget: int, seed: int) -> Answer:
        import pyabc

        logging.getLogger("ABC").setLevel(logging.ERROR)
        np.random.seed(seed)
        purse, rows = Purse(task, budget, seed), rows_a_set(task, budget)
        names, (low, high) = task.simulator.parameters, task.bounds
        ranges = zip(names, low, high - low, strict=True)
        prior = pyabc.Distribution(**{name: pyabc.RV("uniform", a, w) for name, a, w in ranges})

        made: list[tuple[np.ndarray, np.ndarray]] = []

        def simulate(parameter: dict[str, float]) -> dict[str, float]:
            theta = np.array([[parameter[name] for name in names]])
            summaries = task.summarise(purse.simulate(theta, rows))[0]
            made.append((theta[0], summaries))
            return _name(summaries)

        abc = pyabc.ABCSMC(
            simulate,
            prior,
            pyabc.AdaptivePNormDistance(p=2),
            population_size=min(100, max(10, budget // rows // 10)),
            sampler=pyabc.sampler.SingleCoreSampler(),
        )
        history = abc.new("sqlite://", _name(task.summarise(x[None])[0]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with contextlib.suppress(SpentError):
                abc.run(max_nr_populations=30)
        if history.max_t < 0:
            return from_draws(_find_nearest(made, task.summarise(x[None])[0]), purse.calls)
        draws, weights = history.get_distribution()
        return from_draws(draws[list(names)].to_numpy(), purse.calls, weights=weights)


def _find_nearest(made: list[tuple[np.ndarray, np.ndarray]], observed: np.ndarray) -> np.ndarray:
    thetas, summaries = map(np.array, zip(*made, strict=True))
    apart = ((summaries - observed) / (summaries.std(0) + 1e-12)) ** 2
    return thetas[np.argsort(apart.sum(1))[: max(5, len(made) // 10)]]


def _name(summaries: np.ndarray) -> dict[str, float]:
    return {f"s{i}": float(value) for i, value in enumerate(summaries)}
