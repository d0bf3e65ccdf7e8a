"""ELFI: Bayesian optimisation for likelihood-free inference."""

import logging
import warnings
from typing import Any

import numpy as np

from benchmarks.compare.peer import Answer, Peer, from_draws, rows_a_set
from benchmarks.compare.tasks import Purse, Task

_FIRST = 20  # data sets of the prior, as in ELFI's tutorial
_DRAWS = 1000


class BOLFI(Peer):
    """Of the log distance of summaries, each over its deviation among the first data sets."""

    name = "ELFI BOLFI"
    about = (
        f"`BOLFI` of the log distance of summaries over their deviations, with "
        f"`initial_evidence` of {_FIRST} data sets and `update_interval=10` as in its tutorial, "
        f"`acq_noise_var` of a tenth of the prior's width, squared; four chains "
        f'of {_DRAWS:,} steps by `algorithm="metropolis"`, the first half left out'
    )
    needs = ("elfi", "GPy")
    budgets = (1_000,)
    data_sets = 10

    def infer(self, task: Task, x: np.ndarray, budget: int, seed: int) -> Answer:
        import elfi

        logging.getLogger("elfi").setLevel(logging.ERROR)
        purse, rows = Purse(task, budget, seed), rows_a_set(task, budget)
        observed, names = task.summarise(x[None]), task.simulator.parameters
        first = purse.draw_prior(_FIRST)
        y = task.summarise(purse.simulate(first, rows))
        scale = y.std(0) + 1e-12

        def simulate(*theta: Any, batch_size: int = 1, random_state: Any = None) -> np.ndarray:
            return task.summarise(purse.simulate(np.stack(theta, -1).reshape(batch_size, -1), rows))

        model, (low, high) = elfi.ElfiModel(), task.bounds
        priors = [
            elfi.Prior("uniform", a, b - a, model=model, name=name)
            for name, a, b in zip(names, low, high, strict=True)
        ]
        made = elfi.Simulator(simulate, *priors, observed=observed, model=model, name="summaries")
        scaled = elfi.Summary(lambda s: s / scale, made, model=model, name="scaled")
        distance = elfi.Distance("euclidean", scaled, model=model, name="distance")
        target = elfi.Operation(np.log, distance, model=model, name="log_distance")
        apart = np.log(np.sqrt((((y - observed) / scale) ** 2).sum(1)))
        known = {name: first[:, i] for i, name in enumerate(names)} | {"log_distance": apart}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            bolfi = elfi.BOLFI(
                target,
                batch_size=1,
                initial_evidence=known,
                update_interval=10,
                bounds=dict(zip(names, zip(low, high, strict=True), strict=True)),
                acq_noise_var=dict(zip(names, (0.1 * (high - low)) ** 2, strict=True)),
                seed=seed,
            )
            bolfi.fit(n_evidence=budget // rows, bar=False)
            steps = dict(zip(names, 0.1 * (high - low), strict=True))
            found = bolfi.sample(_DRAWS, algorithm="metropolis", sigma_proposals=steps)
        return from_draws(np.asarray(found.samples_array), purse.calls)
