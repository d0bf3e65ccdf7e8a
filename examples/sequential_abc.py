"""Sequential ABC: each round simulates near the best parameters so far."""

import jax

import owlfi
from owlfi import plots

model = owlfi.models.two_moons()
x = model(model.theta, owlfi.iid(jax.random.key(0), 100, model.measure))
problem = owlfi.Problem(model, x)
rule = owlfi.OptimallyWeighted(m=64)

posterior = owlfi.sequential_abc(jax.random.key(1), problem, rule, draws=300, rounds=4)
print(posterior.summary())
print("thresholds", posterior.about["thresholds"])
plots.pairs(posterior, truth=model.theta).flat[0].figure.savefig("sequential_abc.png")
