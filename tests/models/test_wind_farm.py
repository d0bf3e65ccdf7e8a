import jax
import jax.numpy as jnp
import numpy as np
import pytest

from owlfi.models import wakes
from owlfi.models.wakes import thrust_coefficient
from owlfi.models.wind_farm import stored_runs

RUNS = stored_runs()
NOISE = jnp.array([[-1.0], [0.7]])
run = jax.jit(thrust_coefficient)
slopes = jax.jit(jax.grad(lambda theta, u: thrust_coefficient(theta, u).sum(), argnums=(0, 1)))


def assert_agrees_with_stored(rows: range) -> None:
    for row in rows:
        pairs = RUNS.u[row].reshape(5, 2, 1)  # the shape of NOISE: one program serves all tests
        simulated = jnp.concatenate([run(RUNS.theta[row], pair) for pair in pairs])
        np.testing.assert_allclose(simulated, RUNS.y[row], rtol=0, atol=1e-10)


def test_reproduces_stored_runs() -> None:
    assert_agrees_with_stored(range(0, 1000, 50))


@pytest.mark.slow
def test_reproduces_every_stored_run() -> None:
    assert_agrees_with_stored(range(1000))


def test_stored_arrays_are_finite_and_in_range() -> None:
    assert all(np.isfinite(array).all() for array in RUNS)
    assert 0 < RUNS.theta.min() < RUNS.theta.max() < 30


def test_observations_lie_where_simulations_at_twenty_degrees_lie() -> None:
    low, high = run(jnp.array([20.0]), jnp.array([[-4.0], [4.0]])).ravel()
    assert low < RUNS.x.min() < RUNS.x.max() < high


@pytest.mark.parametrize("m", [1, 3])
def test_one_number_for_each_noise(m: int) -> None:
    shape = jax.eval_shape(thrust_coefficient, jnp.ones(1), jnp.ones((m, 1))).shape
    assert shape == (m, 1)


def test_compiled_and_plain_agree() -> None:
    theta = jnp.array([7.3])
    np.testing.assert_allclose(run(theta, NOISE), thrust_coefficient(theta, NOISE), rtol=1e-13)


@pytest.mark.parametrize("theta", [3.7, 12.345, 20.0, 26.1])
def test_slopes_are_central_differences(theta: float) -> None:
    at, h, step = jnp.array([theta]), 1e-6, 1e-3
    by_theta, by_noise = slopes(at, NOISE)
    across_theta = (run(at + h, NOISE) - run(at - h, NOISE)).sum() / (2 * h)
    across_noise = (run(at, NOISE + step) - run(at, NOISE - step)) / (2 * step)
    np.testing.assert_allclose(by_theta[0], across_theta, rtol=1e-5)
    np.testing.assert_allclose(by_noise, across_noise, rtol=1e-6)


@pytest.mark.parametrize("theta", [0.0, 20.0, 30.0])
def test_slopes_are_finite(theta: float) -> None:
    assert all(jnp.isfinite(slope).all() for slope in slopes(jnp.array([theta]), NOISE))


@jax.jit
@jax.vmap
def room_and_gap(angle: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Free places for turbines, and metres from the last far turbine to the box."""
    turbines = wakes._turbines(angle)
    box_start = wakes._rotate(*wakes._BOX_CORNERS, angle)[0].min()
    last = -wakes.NEAR_TURBINES - 1
    return (~turbines.present).sum(), box_start - turbines.along[last]


def test_there_is_room_for_all_turbines_and_far_ones_are_far() -> None:
    room, gap = room_and_gap(jnp.linspace(0.0, jnp.pi / 2, 901))
    assert room.min() >= 5
    assert gap.min() > 1000


def test_overlap_is_the_area_of_two_discs() -> None:
    wake, distance = 80.0, 70.0
    side = (np.arange(600) + 0.5) / 300 - 1
    x, y = wakes.RADIUS * np.stack(np.meshgrid(side, side))
    rotor, in_wake = np.hypot(x, y) < wakes.RADIUS, np.hypot(x - distance, y) < wake
    share = jax.jit(wakes._overlap)(jnp.array([wake]), jnp.array([distance]))[0]
    np.testing.assert_allclose(share, (rotor & in_wake).sum() / rotor.sum(), rtol=1e-3)
