"""Daily exchange rates that the g-and-k distribution is fitted to."""

from importlib.resources import as_file, files

import jax.numpy as jnp
from jaxtyping import Array, Float

from owlfi._tools.checks import as_count
from owlfi.problem.observed import read_csv


def exchange_rates(n: int = 501) -> Float[Array, "n 1"]:
    """The first n daily US dollars per Canadian dollar from 1980 on, at most 1867.

    The paper uses 501 and does not say which.

    >>> exchange_rates().shape
    (501, 1)
    """
    with as_file(files("owlfi") / "data" / "exchange_rates" / "usd_per_cad.csv") as path:
        return read_csv(path, ["usd_per_cad"])[: as_count("n", n, most=1867)]


def daily_changes() -> Float[Array, "1866 1"]:
    """How the rate changed from day to day over all years, as logarithms in percent.

    >>> daily_changes().shape
    (1866, 1)
    """
    return 100 * jnp.diff(jnp.log(exchange_rates(1867)), axis=0)
