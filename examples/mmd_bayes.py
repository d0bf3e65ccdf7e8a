"""The generalised posterior exp(-beta MMD²) prior, its diagnostics and predictions."""

import jax

import owlfi
from owlfi import plots

model = owlfi.models.g_and_k().fix(theta_3=0.1, theta_4=0.1)
x = model(model.theta, owlfi.iid(jax.random.key(0), 200, model.measure))
problem = owlfi.Problem(model, x)
rule = owlfi.OptimallyWeighted(m=64)

posterior = owlfi.mmd_bayes(jax.random.key(1), problem, rule, draws=200, chains=2)
print(posterior.summary())
print("beta", posterior.about["beta"], "R-hat", posterior.about["r_hat"])
samples = posterior.predictive(jax.random.key(2), model, 20, len(x))
plots.predictive(problem, samples)[0].figure.savefig("mmd_bayes.png")
print("kept in", posterior.save("mmd_bayes"))
