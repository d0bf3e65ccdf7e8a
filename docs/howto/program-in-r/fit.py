import io
import subprocess

import jax
import numpy as np

import owlfi


def simulate(theta, u):  # all rows of u in one start of R
    lines = io.StringIO()
    np.savetxt(lines, np.hstack([np.tile(theta, (len(u), 1)), u]), delimiter=",")
    ran = subprocess.run(
        ["Rscript", "model.R"], input=lines.getvalue(), capture_output=True, text=True, check=True
    )
    return np.loadtxt(io.StringIO(ran.stdout), ndmin=2)


prior = owlfi.Prior(scale=owlfi.Uniform(0.5, 5), shape=owlfi.Uniform(0.5, 3))
model = owlfi.Simulator(simulate, owlfi.Normal(dim=3), prior.names, prior=prior, on_host=True)
x = model([2.0, 1.5], owlfi.iid(jax.random.key(0), 100, model.measure))  # yours: "observed.csv"
problem = owlfi.Problem(model, x)
rule = owlfi.OptimallyWeighted(m=32)
print(owlfi.rejection_abc(jax.random.key(1), problem, rule, draws=120, adjust=True).summary())
