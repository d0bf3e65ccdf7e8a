"""A large offshore wind farm: the thrust of a turbine in wind of an unknown direction."""

from importlib.resources import files
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from owlfi.measures import Normal, Uniform
from owlfi.models.wakes import thrust_coefficient
from owlfi.problem.prior import Prior
from owlfi.problem.simulator import Simulator


def wind_farm() -> Simulator:
    """C_T*, the local thrust coefficient of a turbine, by the low-order wake model of `wakes`.

    The parameter is the direction of the wind in degrees, the noise u perturbs the resistance of
    the turbines, 1.33 + 0.001 u; s = d = 1. Usually at theta = 20.

    >>> wind_farm()([20.0], [0.0]).round(4)
    Array([[0.7821]], dtype=float64)
    """
    prior = Prior(direction=Uniform(0, 30))
    return Simulator(thrust_coefficient, Normal(0, 1), prior.names, prior=prior, theta=[20.0])


class StoredRuns(NamedTuple):
    """Runs of the original simulator at 1000 directions, and observations at 20 degrees."""

    theta: Float[Array, "1000 1"]
    u: Float[Array, "1000 10 1"]
    y: Float[Array, "1000 10 1"]
    x: Float[Array, "100 1"]


def stored_runs() -> StoredRuns:
    """The published runs and observations, in the notation of this library.

    >>> [array.shape for array in stored_runs()]
    [(1000, 1), (1000, 10, 1), (1000, 10, 1), (100, 1)]
    """
    noise, simulated = _load("noise")[..., None], _load("simulated")[..., None]
    return StoredRuns(_load("directions"), noise, simulated, _load("observed"))


def _load(name: str) -> Array:
    with (files("owlfi") / "data" / "wind_farm" / f"{name}.npy").open("rb") as file:
        return jnp.asarray(np.load(file, allow_pickle=False))
