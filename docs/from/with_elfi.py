import elfi
import numpy as np


def simulate(scale, shape, batch_size=1, random_state=None):
    scale, shape = (np.reshape(value, (-1, 1)) for value in (scale, shape))
    return scale * random_state.gamma(shape, size=(batch_size, 100))


x = 2.0 * np.random.default_rng(0).gamma(1.5, size=100)
scale = elfi.Prior("uniform", 0.5, 4.5)
shape = elfi.Prior("uniform", 0.5, 2.5)
y = elfi.Simulator(simulate, scale, shape, observed=x[None])
mean = elfi.Summary(lambda rows: rows.mean(1), y)
sd = elfi.Summary(lambda rows: rows.std(1), y)
log = elfi.Summary(lambda rows: np.log(rows).mean(1), y)
d = elfi.Distance("euclidean", mean, sd, log)


def show(name, result, rows):
    print(f"{name}, {rows:,} rows simulated")
    for parameter, values in result.samples.items():
        low, high = np.quantile(values, [0.05, 0.95])
        print(
            f"  {parameter}: {values.mean():.2f} ± {values.std():.2f}, "
            f"90% from {low:.2f} to {high:.2f}"
        )


result = elfi.Rejection(d, batch_size=1000, seed=0).sample(500, quantile=0.01, bar=False)
show("Rejection", result, 100 * result.n_sim)
bolfi = elfi.BOLFI(
    elfi.Operation(np.log, d),
    batch_size=1,
    initial_evidence=20,
    update_interval=10,
    bounds={"scale": (0.5, 5.0), "shape": (0.5, 3.0)},
    seed=0,
)
bolfi.fit(n_evidence=100, bar=False)
found = bolfi.sample(500, n_chains=2)
show("BOLFI", found, 100 * 100)
