"""Exact maximum likelihood, of all rows and of those that are no strays."""

import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats

from benchmarks.compare.peer import LEVEL, Answer, Peer
from benchmarks.compare.tasks import SHARE, Task
from owlfi.experiments.likelihoods import maximum_likelihood


class Likelihood(Peer):
    """The maximum inside the prior, searched from the truth; intervals by observed information."""

    budgets = (0,)

    def __init__(self, inliers: bool = False) -> None:
        self.inliers = inliers
        self.name = "MLE of the inliers" if inliers else "MLE"
        self.about = "no calls; intervals by the observed information"
        if inliers:
            self.about += "; it is told which rows are strays: the best that can be"

    def suits(self, task: Task, spoilt: bool) -> bool:
        return task.log_likelihood is not None and (spoilt or not self.inliers)

    def infer(self, task: Task, x: np.ndarray, budget: int, seed: int) -> Answer:
        likelihood, prior = task.log_likelihood, task.simulator.prior
        assert likelihood is not None
        assert prior is not None
        rows = jnp.asarray(x[round(SHARE * len(x)) :] if self.inliers else x)
        theta = maximum_likelihood(likelihood, prior, jnp.array(task.truth), rows)
        information = -np.asarray(jax.hessian(likelihood)(jnp.asarray(theta), rows))
        with np.errstate(invalid="ignore"):
            errors = np.sqrt(np.diagonal(np.linalg.inv(information)))
        reach = scipy.stats.norm.ppf((1 + LEVEL) / 2) * errors
        return Answer(theta, theta - reach, theta + reach, 0)
