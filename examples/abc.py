"""Approximate Bayesian computation: the direction of the wind, from published runs alone."""

import owlfi
from owlfi import plots
from owlfi.models.wind_farm import stored_runs

runs = stored_runs()
problem = owlfi.Problem(owlfi.models.wind_farm(), runs.x)
axes = plots.new_axes()
for label, kernel in (("equal weights", None), ("tuned weights", "tuned")):
    simulations = owlfi.stored_simulations(problem, runs.theta, runs.u, runs.y, base_kernel=kernel)
    posterior = owlfi.accept(problem, simulations, share=0.05)
    print(label, posterior.summary(), sep="\n")
    plots.marginals(posterior, axes, truth=[20.0], label=label)
axes[0, 0].figure.savefig("abc.png")
