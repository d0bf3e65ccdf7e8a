"""What is believed of the parameters before the data: one measure on the line for each."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from owlfi.checks import as_array
from owlfi.measures import Measure, Product, as_measure


class Prior(eqx.Module):
    """Independent parameters, by name: Prior(a=Uniform(0, 10), b=scipy.stats.gamma(2.0)).

    Raises ValueError for a measure of more than one dimension.

    >>> import jax
    >>> from owlfi.measures import Exponential, Uniform
    >>> prior = Prior(location=Uniform(0, 10), scale=Exponential(1.0))
    >>> prior.names, prior.sample(jax.random.key(0), 100).shape
    (('location', 'scale'), (100, 2))
    """

    names: tuple[str, ...] = eqx.field(static=True)
    marginals: tuple[Measure, ...]

    def __init__(self, **marginals: Any):
        self.names = tuple(marginals)
        self.marginals = tuple(as_measure(marginal) for marginal in marginals.values())
        for name, marginal in zip(self.names, self.marginals, strict=True):
            if marginal.dim != 1:
                raise ValueError(
                    f"the prior of {name} must be a measure on the line, got dimension "
                    f"{marginal.dim}; give each parameter a name and a measure of its own"
                )

    def sample(self, key: Key[Array, ""], n: int) -> Float[Array, "n p"]:
        """n independent draws, a column for each name."""
        return Product(*self.marginals).sample(key, n)

    def log_density(self, theta: Any) -> Float[Array, "..."]:
        """The log density at theta (..., p), -inf outside the support."""
        theta = as_array("theta", theta)
        if theta.shape[-1:] != (len(self.names),):
            raise ValueError(
                f"theta must have {len(self.names)} columns ({', '.join(self.names)}), "
                f"got shape {theta.shape}"
            )
        parts = [m.log_density(theta[..., j : j + 1]) for j, m in enumerate(self.marginals)]
        return jnp.stack(parts).sum(0)

    def of(self, names: tuple[str, ...]) -> "Prior":
        """The prior of some of the parameters, in the order given."""
        known = dict(zip(self.names, self.marginals, strict=True))
        return Prior(**{name: known[name] for name in names})
