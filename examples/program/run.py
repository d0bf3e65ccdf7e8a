"""A program in C as a simulator: compile it, run a campaign of it, look at what it gave.

cc -O2 -o projectile projectile.c -lm && python run.py
"""

import jax

import owlfi
from owlfi import Campaign, Command

noise = owlfi.Normal(dim=2)
prior = owlfi.Prior(speed=owlfi.Uniform(10, 30), angle=owlfi.Uniform(20, 70))
program = Command("./projectile {theta} {u}", time_limit=60)
simulator = owlfi.Simulator(program, noise, prior.names, prior=prior, on_host=True)

u = owlfi.sobol(jax.random.key(0), 8, noise)
quadrature = owlfi.median_weights(noise, u)
thetas = prior.sample(jax.random.key(1), 5)

campaign = Campaign.create("projectile.sqlite", simulator, thetas, quadrature)
campaign.run(workers=1)
runs = campaign.results()
for theta, y in zip(runs.thetas, runs.y, strict=True):
    mean = quadrature.weights @ y[:, 0]
    print(f"speed {theta[0]:5.2f}, angle {theta[1]:5.2f}: lands at {mean:5.2f} on average")
