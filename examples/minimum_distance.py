"""Fit the g-and-k distribution to daily changes of an exchange rate, with standard errors."""

import jax

import owlfi
from owlfi import plots
from owlfi.models.exchange_rates import daily_changes

x = daily_changes()
prior = owlfi.Prior(
    location=owlfi.Uniform(-1.0, 1.0),
    scale=owlfi.Uniform(0.0, 1.0),
    skewness=owlfi.Uniform(-2.0, 2.0),
    kurtosis=owlfi.Uniform(0.0, 1.0),
)
g_and_k = owlfi.models.g_and_k()
model = owlfi.Simulator(g_and_k.generator, owlfi.Normal(), prior.names, prior=prior)
problem = owlfi.Problem(model, x)
rule = owlfi.OptimallyWeighted(m=128)

estimate = owlfi.minimum_distance(jax.random.key(0), problem, rule)
print(estimate.summary())
print(f"{estimate.calls} simulator calls")
plots.trace(estimate)[0].figure.savefig("minimum_distance.png")
