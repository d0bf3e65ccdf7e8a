"""Fit the g-and-k distribution to exchange rates: estimate, standard errors, trace."""

import jax

import owlfi
from owlfi import plots

x = owlfi.models.exchange_rates()
prior = owlfi.Prior(
    location=owlfi.Uniform(0.7, 1.0),
    scale=owlfi.Uniform(0.0, 0.1),
    skewness=owlfi.Uniform(-3.0, 3.0),
    kurtosis=owlfi.Uniform(-0.4, 1.0),
)
g_and_k = owlfi.models.g_and_k()
model = owlfi.Simulator(g_and_k.generator, owlfi.Normal(), prior.names, prior=prior)
problem = owlfi.Problem(model, x)
rule = owlfi.OptimallyWeighted(m=128, kernel=owlfi.Matern(2.5))

estimate = owlfi.minimum_distance(jax.random.key(0), problem, rule)
print(estimate.summary())
print(f"{estimate.calls} simulator calls")
plots.trace(estimate)[0].figure.savefig("minimum_distance.png")
