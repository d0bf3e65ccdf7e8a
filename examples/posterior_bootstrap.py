"""The posterior bootstrap: no likelihood, no learning rate, robust to a wrong model."""

import jax

import owlfi
from owlfi import plots

model = owlfi.models.g_and_k().fix(theta_3=0.1, theta_4=0.1)
x = model(model.theta, owlfi.iid(jax.random.key(0), 200, model.measure))
problem = owlfi.Problem(model, x)
rule = owlfi.OptimallyWeighted(m=64)

posterior = owlfi.posterior_bootstrap(jax.random.key(1), problem, rule, draws=100)
print(posterior.summary())
plots.pairs(posterior, truth=model.theta).flat[0].figure.savefig("posterior_bootstrap.png")
