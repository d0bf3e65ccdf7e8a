"""Effective draws and R-hat are those of BlackJAX."""

import blackjax.diagnostics
import numpy as np
import pytest
from numpy.testing import assert_allclose

from owlfi.inference.mixing import count_effective, measure_r_hat


def walks(chains, correlations):
    """Stationary autoregressions (chains, 100, p), one column for each correlation."""
    rng = np.random.default_rng(0)
    a, noise = np.array(correlations), rng.normal(size=(chains, 100, len(correlations)))
    v = [noise[:, 0]]
    for fresh in noise.transpose(1, 0, 2)[1:]:
        v.append(a * v[-1] + np.sqrt(1 - a**2) * fresh)
    return np.stack(v, 1)


@pytest.mark.parametrize("chains", [1, 4])
def test_diagnostics_are_those_of_blackjax(chains):
    v = walks(chains, [0.0, 0.5, 0.95, -0.6])
    diagnostics = blackjax.diagnostics
    assert_allclose(count_effective(v), diagnostics.effective_sample_size(v), rtol=1e-10)
    if chains > 1:
        assert_allclose(measure_r_hat(v), diagnostics.potential_scale_reduction(v), rtol=1e-10)


def test_coordinates_that_never_move_or_are_missing_are_told():
    v = walks(2, [0.0, 0.0, 0.0])
    v[..., 1], v[0, 3, 2] = 1.0, np.nan
    found = count_effective(v)
    assert found[0] > 50
    assert found[1] == 0
    assert np.isnan(found[2])
