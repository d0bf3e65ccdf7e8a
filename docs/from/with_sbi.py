import numpy as np
import torch
from sbi.inference import NPE
from sbi.utils import BoxUniform

prior = BoxUniform(low=torch.tensor([0.5, 0.5]), high=torch.tensor([5.0, 3.0]))
torch.manual_seed(0)


def summarise(rows):
    return torch.stack([rows.mean(-1), rows.std(-1), rows.log().mean(-1)], -1)


def simulate(thetas):  # summaries of 100 rows for each theta
    scale, shape = thetas.T
    rows = scale[:, None] * torch.distributions.Gamma(shape, 1.0).sample((100,)).T
    return summarise(rows)


thetas = prior.sample((2000,))
inference = NPE(prior=prior)
inference.append_simulations(thetas, simulate(thetas)).train()
posterior = inference.build_posterior()

x = torch.tensor(2.0 * np.random.default_rng(0).gamma(1.5, size=100), dtype=torch.float32)
print()  # behind the progress of the training
draws = posterior.sample((1000,), x=summarise(x), show_progress_bars=False)
for name, values in zip(("scale", "shape"), draws.T, strict=True):
    low, high = values.quantile(torch.tensor([0.05, 0.95]))
    print(f"{name}: {values.mean():.2f} ± {values.std():.2f}, 90% from {low:.2f} to {high:.2f}")
print(f"{2000 * 100:,} rows simulated")
