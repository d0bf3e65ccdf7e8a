"""The M/G/1 queue: times between departures from a single server."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from owlfi._tools.checks import as_count
from owlfi.measures import Exponential, Product, Uniform
from owlfi.problem.prior import Prior
from owlfi.problem.simulator import Simulator


def queue(customers: int = 5) -> Simulator:
    """Times between departures y_t = s_t + max(0, a_t - Σ_(i<t) y_i), t = 1 … customers.

    Customer t is served for s_t = θ₁ + θ₂ v_t and arrives at a_t = Σ_(i≤t) e_i / θ₃; the noise is
    v, uniform on (0, 1), then e, Exponential(1); s = 2 customers, d = customers. The maximum makes
    y continuous with kinks. Usually at theta = (1, 5, 0.2).
    Source: Jiang, Wu and Wong, Approximate Bayesian computation with Kullback-Leibler divergence as
    data discrepancy (2018).

    >>> queue(2)([1.0, 5.0, 0.5], [[0.2, 0.4, 1.0, 3.0]])
    Array([[4., 7.]], dtype=float64)
    """
    n = as_count("customers", customers)
    prior = Prior(theta_1=Uniform(0, 10), theta_2=Uniform(0, 10), theta_3=Uniform(0, 1 / 3))
    noise = Product(Uniform(0, 1, dim=n), Exponential(1, dim=n))
    return Simulator(_generate, noise, prior.names, prior=prior, theta=[1.0, 5.0, 0.2])


def _generate(theta: Float[Array, " 3"], u: Float[Array, "m s"]) -> Float[Array, "m d"]:
    uniform, gaps = jnp.split(u.T, 2)
    services = theta[0] + theta[1] * uniform
    arrivals = jnp.cumsum(gaps, 0) / theta[2]

    def next_departure(last: Array, customer: tuple[Array, Array]) -> tuple[Array, Array]:
        service, arrival = customer
        between = service + jnp.maximum(0.0, arrival - last)
        return last + between, between

    start = jnp.zeros(u.shape[0])
    return jax.lax.scan(next_departure, start, (services, arrivals))[1].T
