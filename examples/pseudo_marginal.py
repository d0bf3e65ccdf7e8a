"""MMD-Bayes for a simulator in NumPy, without derivatives."""

import jax
import numpy as np

import owlfi


def log_normal(theta, u):
    """Any function of parameters and noise, row by row."""
    return np.exp(theta[0] + theta[1] * u)


prior = owlfi.Prior(level=owlfi.Normal(0.0, 2.0), spread=owlfi.Exponential(1.0))
model = owlfi.Simulator(log_normal, owlfi.Normal(), prior.names, prior=prior, on_host=True)
x = model([1.0, 0.5], owlfi.iid(jax.random.key(0), 200, model.measure))
problem = owlfi.Problem(model, x)
rule = owlfi.OptimallyWeighted(m=32)

posterior = owlfi.pseudo_marginal(jax.random.key(1), problem, rule, draws=500, chains=2, designs=4)
print(posterior.summary())
print("accepted", posterior.about["acceptance"])
