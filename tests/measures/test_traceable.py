"""Measures say rightly whether they run inside jit."""

import jax
import numpy as np
import pytest
import scipy.stats

from catalogue import MEASURES, SPACES
from owlfi import Empirical, Gamma, Mixture, Normal, Product

MEASURES_OF_ALL_KINDS = {name: row.measure for name, row in (MEASURES | SPACES).items()} | {
    "mixture of scipy's": Mixture([Normal(), scipy.stats.gumbel_r()], [0.5, 0.5]),
    "product of scipy's": Product(Normal(), scipy.stats.gumbel_r()),
    "product with gamma": Product(Normal(), Gamma(2.0)),
    "rows": Empirical(np.arange(6.0).reshape(3, 2)),
}


def runs_inside_jit(function, dim):
    try:
        jax.eval_shape(function, jax.ShapeDtypeStruct((3, dim), float))
    except ValueError as error:
        assert "cannot be used inside jit" in str(error)  # noqa: PT017
        return False
    return True


@pytest.mark.parametrize("measure", MEASURES_OF_ALL_KINDS.values(), ids=MEASURES_OF_ALL_KINDS)
def test_measures_say_rightly_whether_they_are_traceable(measure):
    quantiles = runs_inside_jit(measure.from_uniform, measure.dim)
    density = runs_inside_jit(measure.log_density, measure.dim)
    assert measure.traceable == (quantiles and density)
    assert measure.traceable_density == density
