"""The squared MMD to data, from 128 weighted simulations at each theta."""

import jax
import jax.numpy as jnp

import owlfi


def simulator(theta, u):
    """Any function of parameters and noise."""
    return jnp.stack([theta * u[:, 0], jnp.sin(u[:, 1])], axis=1)


noise = owlfi.Normal(mean=0.0, sd=1.0, dim=2)  # the distribution of u
x = simulator(1.5, owlfi.iid(jax.random.key(1), 500, noise))  # the data to fit
k = owlfi.SquaredExponential(owlfi.median_heuristic(x))

u = owlfi.sobol(jax.random.key(0), 128, noise)  # where to run the simulator
thetas = (1.0, 1.5, 2.0)
y = jnp.stack([simulator(theta, u) for theta in thetas])
quadrature = owlfi.tuned_weights(k, noise, u, y)  # weights for the 128 runs at every theta
for theta, distance in zip(thetas, owlfi.squared_mmd(k, y, x, weights=quadrature), strict=True):
    print(f"theta = {theta}: squared MMD {distance:.4f}")
# with 16,384 runs a theta: 0.0170, 0.0053 and 0.0263
