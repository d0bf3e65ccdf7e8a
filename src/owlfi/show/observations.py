"""Which observations fit, as the efficient discrepancy sees them."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from owlfi._tools.checks import as_kind
from owlfi.results import Estimate
from owlfi.show.axes import as_axes, hide_frame

_LEAST = 1e-12  # of the chances, drawn at the lower end


def observations(estimate: Estimate, ax: Any = None) -> Axes:
    """How probable rows as far from the model as each observation are; outliers in another colour.

    The size of a mark is how far the observation moves the estimate.

    Raises ValueError for an estimate by another discrepancy.

    >>> import jax.numpy as jnp
    >>> known = {"chances": jnp.array([0.5, 1e-9]), "left_out": jnp.array([0.0, 1.0])}
    >>> one = jnp.ones(1), jnp.ones((1, 1)), jnp.zeros(())
    >>> estimate = Estimate(("a",), *one, **known, influence=jnp.zeros((1, 2)))
    >>> observations(estimate).get_yscale()
    'log'
    """
    as_kind("estimate", estimate, Estimate, "an Estimate")
    if estimate.chances is None or estimate.left_out is None or estimate.influence is None:
        raise ValueError(
            "the estimate knows nothing of single observations; minimum_distance(..., "
            "discrepancy='efficient') does"
        )
    axis: Axes = as_axes(ax, 1, 1)[0]
    chances = np.maximum(np.asarray(estimate.chances), _LEAST)
    sizes = 4 + 200 * np.abs(np.asarray(estimate.influence)).max(0)
    outside = np.asarray(estimate.left_out) > 0
    for chosen, color, label in ((~outside, "C0", "fit"), (outside, "C3", "do not fit")):
        numbers = np.flatnonzero(chosen)
        axis.scatter(numbers, chances[chosen], sizes[chosen], color=color, alpha=0.6, label=label)
    axis.set(yscale="log", ylim=(0.5 * _LEAST, 2), xlabel="observation", ylabel="chance")
    axis.legend(frameon=False)
    hide_frame(axis)
    return axis
