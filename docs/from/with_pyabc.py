import tempfile

import numpy as np
import pyabc

prior = pyabc.Distribution(scale=pyabc.RV("uniform", 0.5, 4.5), shape=pyabc.RV("uniform", 0.5, 2.5))
simulated = 0
np.random.seed(0)


def summarise(rows):
    return {"mean": rows.mean(), "sd": rows.std(), "log": np.log(rows).mean()}


def simulate(theta):
    global simulated
    simulated += 100
    return summarise(theta["scale"] * np.random.gamma(theta["shape"], size=100))


x = 2.0 * np.random.default_rng(0).gamma(1.5, size=100)
abc = pyabc.ABCSMC(
    simulate,
    prior,
    pyabc.AdaptivePNormDistance(),
    population_size=500,
    sampler=pyabc.SingleCoreSampler(),
)
abc.new(f"sqlite:///{tempfile.mkdtemp()}/runs.db", summarise(x))
history = abc.run(max_nr_populations=6)
frame, weights = history.get_distribution()
for name in ("scale", "shape"):
    mean = np.average(frame[name], weights=weights)
    sd = np.average((frame[name] - mean) ** 2, weights=weights) ** 0.5
    values = frame[name].values
    low, high = (pyabc.weighted_quantile(values, weights, alpha=a) for a in (0.05, 0.95))
    print(f"{name}: {mean:.2f} ± {sd:.2f}, 90% from {low:.2f} to {high:.2f}")
print(f"{simulated:,} rows simulated")
