"""sbi: neural posterior and neural likelihood estimation."""

import time
import warnings
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from benchmarks.compare.peer import Answer, Peer, from_draws, rows_a_set
from benchmarks.compare.tasks import TASKS, Purse, Task

_DRAWS, _FEWER = 1000, 400
_NETWORKS = {1_000: 3, 10_000: 2, 100_000: 1}
"""How many are trained for all data sets of a task: they do not depend on the data."""
_SHARED = "data sets share {} networks (at the three budgets)".format(
    ", ".join(map(str, _NETWORKS.values()))
)
_PATIENCE = 20.0  # seconds to find draws inside the prior


class Trained(NamedTuple):
    """A posterior for any data, and what it took."""

    posterior: Any
    calls: int
    seconds: float


class NPE(Peer):
    """Of the summaries of whole data sets."""

    name = "sbi NPE"
    about = (
        "`NPE(prior).append_simulations(theta, summaries).train()`, all by default (one round, a "
        f"masked autoregressive flow), on data sets of the prior; {_DRAWS:,} draws, clipped to the "
        f"prior where it takes more than {_PATIENCE:.0f} s to find them inside; {_SHARED}"
    )
    needs = ("sbi.inference", "torch")
    data_sets = 10

    def infer(self, task: Task, x: np.ndarray, budget: int, seed: int) -> Answer:
        trained = _train_posterior(TASKS.index(task), budget, seed % _NETWORKS[budget])
        draws = _draw_inside(trained.posterior, _as_tensor(task.summarise(x[None])), task)
        return from_draws(draws, trained.calls, trained.seconds)


class NLE(Peer):
    """Of single rows, so that every call is one pair for its training."""

    name = "sbi NLE"
    about = (
        "`NLE(prior, density_estimator).append_simulations(theta, row).train()` on single rows, "
        "one a theta: `maf` (its default), `mdn` for g-and-k, whose rows are one number, batches "
        "of 1,000 at 100,000 rows, all else by default; the likelihood of all rows of a data set, "
        "by `slice_np_vectorized` with 10 chains, 20 steps (and its 50 of tuning) before the "
        f"first of {_FEWER} draws; {_SHARED}"
    )
    needs = ("sbi.inference", "torch")
    data_sets = 10

    def infer(self, task: Task, x: np.ndarray, budget: int, seed: int) -> Answer:
        import torch

        trained = _train_likelihood(TASKS.index(task), budget, seed % _NETWORKS[budget])
        torch.manual_seed(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows = _as_tensor(task.describe(x))
            draws = trained.posterior.sample((_FEWER,), x=rows, show_progress_bars=False)
        return from_draws(draws.numpy().astype(float), trained.calls, trained.seconds)


@cache
def _train_posterior(place: int, budget: int, seed: int) -> Trained:
    import sbi.inference

    task, begin = TASKS[place], time.process_time()
    purse, rows = _open_purse(task, budget, seed), rows_a_set(task, budget)
    thetas = purse.draw_prior(budget // rows)
    x = task.summarise(purse.simulate(thetas, rows))
    method = _train(sbi.inference.NPE(_make_prior(task), show_progress_bars=False), thetas, x)
    return Trained(method.build_posterior(), purse.calls, time.process_time() - begin)


@cache
def _train_likelihood(place: int, budget: int, seed: int) -> Trained:
    import sbi.inference

    task, begin = TASKS[place], time.process_time()
    purse = _open_purse(task, budget, seed)
    thetas = purse.draw_prior(budget)
    x = task.describe(purse.simulate(thetas, 1)[:, 0])
    flow = "mdn" if x.shape[1] == 1 else "maf"
    prior = _make_prior(task)
    method = sbi.inference.NLE(prior, density_estimator=flow, show_progress_bars=False)
    _train(method, thetas, x, training_batch_size=1000 if budget >= 100_000 else 200)
    chains = {"num_chains": 10, "warmup_steps": 20, "thin": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        posterior = method.build_posterior(mcmc_parameters=chains)
    return Trained(posterior, purse.calls, time.process_time() - begin)


def _open_purse(task: Task, budget: int, seed: int) -> Purse:
    import torch

    torch.manual_seed(seed)
    torch.set_num_threads(1)  # more only wait for each other on networks of this size
    return Purse(task, budget, seed)


def _train(method: Any, thetas: np.ndarray, x: np.ndarray, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        method.append_simulations(_as_tensor(thetas), _as_tensor(x)).train(**options)
    return method


def _make_prior(task: Task) -> Any:
    from sbi.utils import BoxUniform

    return BoxUniform(*map(_as_tensor, task.bounds))


def _as_tensor(array: np.ndarray) -> Any:
    import torch

    return torch.as_tensor(np.array(array, np.float32))


def _draw_inside(posterior: Any, x: Any, task: Task) -> np.ndarray:
    """Draws inside the prior; clipped to it where hardly any are."""
    import torch

    torch.manual_seed(0)
    options = {"x": x, "show_progress_bars": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            draws = posterior.sample((_DRAWS,), max_sampling_time=_PATIENCE, **options)
        except RuntimeError:
            draws = posterior.sample((_DRAWS,), reject_outside_prior=False, **options)
    return np.clip(draws.numpy().astype(float), *task.bounds)
