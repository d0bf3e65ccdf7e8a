import jax
import jax.numpy as jnp
import numpy as np

from owlfi.models.g_and_k import g_and_k

U = jnp.linspace(-4.0, 4.0, 41)[:, None]


def test_is_the_textbook_formula() -> None:
    a, b, g, k = 3.0, 1.5, 0.8, 0.2
    z = np.asarray(U)
    skew = (1 - np.exp(-g * z)) / (1 + np.exp(-g * z))
    expected = a + b * (1 + 0.8 * skew) * (1 + z**2) ** k * z
    np.testing.assert_allclose(g_and_k(jnp.array([a, b, g, k]), U), expected, rtol=1e-13)


def test_without_skewness_and_kurtosis_is_normal() -> None:
    np.testing.assert_allclose(g_and_k(jnp.array([3.0, 2.0, 0.0, 0.0]), U), 3 + 2 * U, rtol=1e-15)


def test_gradient_is_finite_for_extreme_parameters() -> None:
    jacobian = jax.jacobian(g_and_k)(jnp.array([3.0, 1.0, 500.0, 3.0]), U)
    assert jnp.isfinite(jacobian).all()
