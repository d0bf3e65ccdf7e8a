"""Simulators: JAX and NumPy generators, fixed parameters, other coordinates, checks."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from owlfi import (
    Gamma,
    Normal,
    Prior,
    Product,
    Simulator,
    SquaredExponential,
    Uniform,
    equal_weights,
    optimal_weights,
    simulate,
    sobol,
)
from owlfi.problem.simulations import check_determined

NOISE = Normal(0, 1, dim=2)
U = np.array([[0.5, -1.0], [1.5, 2.0], [0.0, 0.25]])
NAMES = ("shift", "scale", "power")


def in_jax(theta, u):
    return theta[0] + theta[1] * jnp.abs(u) ** theta[2]


def in_numpy(theta, u):
    assert type(theta) is np.ndarray
    assert type(u) is np.ndarray
    return theta[0] + theta[1] * np.abs(u) ** theta[2]


def quadrature(u=U, noise=NOISE):
    return equal_weights(SquaredExponential(1.0), noise, u)


def both():
    return Simulator(in_jax, NOISE, NAMES), Simulator(in_numpy, NOISE, NAMES)


# What runs where


def test_jax_functions_are_traced_and_numpy_functions_run_on_the_host():
    jax_simulator, numpy_simulator = both()
    assert not jax_simulator.on_host
    assert numpy_simulator.on_host
    theta = [1.0, 2.0, 3.0]
    assert_allclose(jax_simulator(theta, U), numpy_simulator(theta, U), rtol=1e-15)


def test_jax_simulator_is_compiled_mapped_and_differentiated():
    simulator, _ = both()
    thetas = jnp.array([[1.0, 2.0, 3.0], [0.0, 1.0, 2.0]])
    mapped = jax.jit(jax.vmap(lambda theta: simulator(theta, U)))(thetas)
    assert_allclose(mapped[1], U**2, rtol=1e-15)
    slope = jax.grad(lambda theta: simulator(theta, U).sum())(thetas[0])
    assert_allclose(slope[:2], [6.0, (np.abs(U) ** 3).sum()], rtol=1e-14)


def test_host_simulator_inside_jit_is_refused():
    _, simulator = both()
    with pytest.raises(ValueError, match="runs on the host and cannot be used inside jit"):
        jax.jit(lambda theta: simulator(theta, U))(jnp.ones(3))


def test_host_can_be_demanded():
    calls = []
    simulator = Simulator(lambda theta, u: calls.append(1) or u, NOISE, ["a"], on_host=True)
    assert calls == []
    assert_allclose(simulator([1.0], U), U)
    assert calls == [1]


def test_numbers_instead_of_rows_are_one_column():
    simulator = Simulator(lambda theta, u: theta[0] * u[:, 0], NOISE, ["a"])
    assert simulator([2.0], U).shape == (3, 1)


# Simulations


@pytest.mark.parametrize("place", [0, 1])
def test_simulate_runs_every_theta_on_every_point_and_counts(place):
    simulator = both()[place]
    thetas = np.array([[1.0, 2.0, 3.0], [0.0, 1.0, 2.0]])
    runs = simulate(simulator, thetas, quadrature())
    assert runs.y.shape == (2, 3, 2)
    assert runs.calls == 2 * 3 + 4
    assert simulate(simulator, thetas, quadrature(), check=False).calls == 6
    assert_allclose(runs.y[1], U**2, rtol=1e-15)


@pytest.mark.parametrize("place", [0, 1])
def test_each_theta_may_have_points_of_its_own(place):
    designs = np.stack([U, U + 1])
    q = optimal_weights(SquaredExponential(1.0), NOISE, designs)
    runs = simulate(both()[place], [[0.0, 1.0, 2.0]] * 2, q)
    assert_allclose(runs.y, designs**2, rtol=1e-14)
    with pytest.raises(ValueError, match="one for each of the 3 thetas"):
        simulate(both()[place], [[0.0, 1.0, 2.0]] * 3, q)


def test_calls_are_the_rows_that_the_generator_saw():
    rows = []

    def counting(theta, u):
        rows.append(len(u))
        return np.asarray(theta[0] * u)

    simulator = Simulator(counting, NOISE, ["a"], on_host=True)
    assert simulate(simulator, [1.0, 2.0, 4.0], quadrature()).calls == sum(rows)


def test_one_theta_may_come_as_a_vector():
    simulator, _ = both()
    assert simulate(simulator, [0.0, 1.0, 2.0], quadrature()).thetas.shape == (1, 3)
    one = simulator.fix(shift=0, power=2)
    assert simulate(one, [1.0, 2.0, 3.0], quadrature()).thetas.shape == (3, 1)


def test_single_point_works():
    assert simulate(both()[0], [0.0, 1.0, 2.0], quadrature(U[:1])).calls == 1 + 4


# Fixed parameters


@pytest.mark.parametrize("place", [0, 1])
def test_fix_leaves_the_other_parameters(place):
    simulator = both()[place]
    fixed = simulator.fix(scale=2.0)
    assert fixed.parameters == ("shift", "power")
    assert fixed.on_host == simulator.on_host
    assert_allclose(fixed([1.0, 3.0], U), simulator([1.0, 2.0, 3.0], U), rtol=1e-15)
    assert_allclose(fixed.fix(shift=1.0, power=3.0)([], U), simulator([1, 2, 3], U), rtol=1e-15)


def test_fix_keeps_the_prior_and_the_usual_theta_of_the_others():
    prior = Prior(shift=Uniform(0, 1), scale=Uniform(1, 2), power=Uniform(2, 3))
    simulator = Simulator(in_jax, NOISE, NAMES, prior=prior, theta=[0.5, 1.5, 2.5])
    fixed = simulator.fix(scale=9.0)
    assert fixed.prior.names == ("shift", "power")
    assert_allclose(fixed.theta, [0.5, 2.5])


def test_fix_is_differentiable_in_what_is_left():
    fixed = both()[0].fix(shift=0.0, power=2.0)
    assert_allclose(jax.grad(lambda t: fixed(t, U).sum())(jnp.ones(1)), [(U**2).sum()])


def test_fixing_an_unknown_parameter_names_the_known_ones():
    with pytest.raises(ValueError, match="no parameter speed; the simulator has shift, scale"):
        both()[0].fix(speed=1.0)
    with pytest.raises(ValueError, match="scale must be one number"):
        both()[0].fix(scale=[1.0, 2.0])


# All-uniform form


@pytest.mark.parametrize("place", [0, 1])
def test_uniform_form_has_the_same_law(place):
    simulator = both()[place]
    uniform = simulator.uniform()
    v = np.array([[0.1, 0.5], [0.9, 0.3]])
    assert isinstance(uniform.measure, Uniform)
    assert uniform.measure.dim == 2
    theta = [1.0, 2.0, 3.0]
    assert_allclose(uniform(theta, v), simulator(theta, NOISE.from_uniform(jnp.asarray(v))))


def test_uniform_form_of_a_measure_with_quantiles_on_the_host_runs_there():
    noise = Product(Gamma(0.7), Normal())
    uniform = Simulator(lambda theta, u: theta[0] * u, noise, ["a"]).uniform()
    assert uniform.on_host
    v = np.array([[0.2, 0.4]])
    assert_allclose(uniform([2.0], v), 2 * noise.from_uniform(jnp.asarray(v)), rtol=1e-15)


# Errors


class Drifting:
    """A generator that remembers how often it was called."""

    calls = 0

    def __call__(self, theta, u):
        self.calls += 1
        return theta[0] * u + 1e-6 * self.calls


RNG = np.random.default_rng(0)
NOT_DETERMINED = {
    "random numbers of its own": lambda theta, u: theta[0] * u + RNG.normal(size=u.shape),
    "the same seed in every call": lambda t, u: u + np.random.default_rng(0).normal(size=u.shape),
    "a key of its own": lambda theta, u: u + jax.random.normal(jax.random.key(0), u.shape),
    "one number for all rows": lambda theta, u: theta[0] * u + RNG.normal(),
    "rows that add up": lambda theta, u: np.cumsum(u, 0),
    "rows less their mean": lambda theta, u: u - u.mean(0)[None],
    "the number of the row": lambda theta, u: u + np.arange(len(u))[:, None],
    "hidden state": Drifting(),
}


@pytest.mark.parametrize("generator", NOT_DETERMINED.values(), ids=NOT_DETERMINED)
@pytest.mark.parametrize("on_host", [True, None])
def test_rows_that_are_not_determined_by_theta_and_u_are_found(generator, on_host):
    simulator = Simulator(generator, NOISE, ["a"], on_host=on_host)
    with pytest.raises(ValueError, match=r"not determined by theta and u.*random numbers from u"):
        check_determined(simulator, jnp.ones((1, 1)), jnp.asarray(U))


def test_a_single_point_is_run_beside_itself():
    seeded = Simulator(NOT_DETERMINED["the same seed in every call"], NOISE, ["a"])
    with pytest.raises(ValueError, match="not determined by theta and u"):
        check_determined(seeded, jnp.ones((1, 1)), jnp.asarray(U[:1]))


def test_check_takes_four_rows_and_nan_is_equal_to_itself():
    half = Simulator(lambda theta, u: jnp.where(u > 0, theta[0] * u, jnp.nan), NOISE, ["a"])
    assert check_determined(half, jnp.ones((1, 1)), jnp.asarray(U)) == 4


def fails_below_one(kind):
    """A generator in NumPy that fails at theta < 1, and draws numbers of its own elsewhere."""

    def generator(theta, u):
        if theta[0] < 1 and kind == "raises":
            raise ArithmeticError("no such state")
        return u * np.nan if theta[0] < 1 else u + RNG.normal(size=u.shape)

    return Simulator(generator, NOISE, ["a"], on_host=True)


@pytest.mark.parametrize("kind", ["raises", "gives NaN"])
def test_check_goes_on_to_a_theta_at_which_the_simulator_works(kind):
    thetas = jnp.array([[0.0], [0.5], [2.0]])
    with pytest.raises(ValueError, match=r"not determined by theta and u: at theta = \[2"):
        check_determined(fails_below_one(kind), thetas, jnp.asarray(U))


def test_check_of_a_simulator_that_fails_at_every_theta():
    thetas, u = jnp.zeros((5, 1)), jnp.asarray(U)
    with pytest.raises(ArithmeticError, match="no such state"):
        check_determined(fails_below_one("raises"), thetas, u)
    assert check_determined(fails_below_one("gives NaN"), thetas, u) == 6  # and no verdict


def test_columns_of_y_are_those_of_the_data():
    with pytest.raises(ValueError, match="observed has 3 columns where the simulator gives 2"):
        check_determined(both()[0], jnp.ones((1, 3)), jnp.asarray(U), 3)


@pytest.mark.parametrize("y", [np.ones((3, 1)) * 1j, np.full((3, 1), "1"), [["1"]] * 3])
def test_what_is_no_real_number_is_refused(y):
    simulator = Simulator(lambda theta, u: y, NOISE, ["a"], on_host=True)
    with pytest.raises(ValueError, match="array of real numbers"):
        simulator([1.0], U)


def test_random_numbers_inside_the_generator_are_found_before_the_work():
    rng = np.random.default_rng(0)
    seen = []

    def noisy(theta, u):
        seen.append(len(u))
        return theta[0] * u + rng.normal(size=u.shape)

    simulator = Simulator(noisy, NOISE, ["a"], on_host=True)
    with pytest.raises(ValueError, match=r"not determined by theta and u.*random numbers from u"):
        simulate(simulator, np.ones((50, 1)), quadrature())
    assert sum(seen) == 3


def test_rows_that_depend_on_each_other_are_found():
    simulator = Simulator(lambda theta, u: theta[0] * u / u.max(), NOISE, ["a"])
    with pytest.raises(ValueError, match="row i of y depend on row i of u alone"):
        simulate(simulator, [1.0], quadrature())


@pytest.mark.parametrize("module", [jnp, np])
def test_values_that_are_not_finite_are_found_with_theta_and_u(module):
    simulator = Simulator(
        lambda theta, u: module.sqrt(u[:, :1] + theta[0]), Uniform(), ["a"], on_host=module is np
    )
    q = equal_weights(SquaredExponential(1.0), Uniform(), [0.5, 0.25])
    with (
        np.errstate(invalid="ignore"),
        pytest.raises(ValueError, match=r"NaN or infinite.*theta = \[-0.3\], u = \[0.25\]"),
    ):
        simulate(simulator, [1.0, -0.3], q)


def test_dimension_that_changes_with_theta_is_found():
    simulator = Simulator(lambda theta, u: u[:, : int(theta[0])], NOISE, ["columns"])
    assert simulator.on_host
    with pytest.raises(ValueError, match=r"one shape at every theta.*3, 1.*3, 2"):
        simulate(simulator, [1.0, 2.0], quadrature())


def test_wrong_shape_of_y_is_found():
    simulator = Simulator(lambda theta, u: u.sum(0), NOISE, ["a"])
    with pytest.raises(ValueError, match=r"one row for each of the 3 rows of u, got shape \(2,\)"):
        simulator([1.0], U)
    text = Simulator(lambda theta, u: ["many"] * len(u), NOISE, ["a"], on_host=True)
    with pytest.raises(ValueError, match="array of real numbers"):
        text([1.0], U)


def test_names_that_are_not_there_are_found_at_once():
    with pytest.raises(NameError, match="exponent"):
        Simulator(lambda theta, u: u**exponent, NOISE, ["a"])  # noqa: F821


def test_errors_of_the_generator_reach_the_user():
    def broken(theta, u):
        raise KeyError("my own mistake")

    with pytest.raises(KeyError, match="my own mistake"):
        Simulator(broken, NOISE, ["a"])([1.0], U)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((in_jax, NOISE, "abc"), "list of names, got 'abc'"),
        ((in_jax, NOISE, ["a", "a", "b"]), "different names"),
        ((in_jax, NOISE, [1, 2, 3]), "list of names"),
        (("in_jax", NOISE, NAMES), "generator must be a function"),
    ],
)
def test_wrong_construction_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Simulator(*arguments)


def test_prior_and_theta_must_fit_the_parameters():
    with pytest.raises(ValueError, match="prior has the parameters"):
        Simulator(in_jax, NOISE, NAMES, prior=Prior(shift=Uniform()))
    with pytest.raises(ValueError, match="theta must hold the 3 parameters shift, scale, power"):
        Simulator(in_jax, NOISE, NAMES, theta=[1.0, 2.0])


@pytest.mark.parametrize("shape", [(2,), (2, 2), (0, 3), (1, 1, 3)])
def test_thetas_of_the_wrong_shape_are_refused(shape):
    with pytest.raises(ValueError, match=re.escape("(t, 3), a column for each of shift, scale")):
        simulate(both()[0], np.ones(shape), quadrature())


def test_points_must_fit_the_measure():
    inside = Simulator(lambda theta, u: theta[0] * u, Uniform(dim=2), ["a"])
    with pytest.raises(ValueError, match="outside the support"):
        inside([1.0], U)
    designs = np.full((2, 3, 2), 0.5)
    designs[1, 2] = 1.5
    with pytest.raises(ValueError, match="design 1, row 2, coordinate 0"):
        optimal_weights(SquaredExponential(1.0), inside.measure, designs)
    with pytest.raises(ValueError, match="2 are expected"):
        inside([1.0], np.full((3, 1), 0.5))
    with pytest.raises(ValueError, match="quadrature must be a Quadrature"):
        simulate(inside, [1.0], sobol(jax.random.key(0), 4, inside.measure))


def test_simulators_are_shown_by_their_parameters_and_noise():
    shown = repr(Simulator(lambda theta, u: theta[0] + u, Normal(0.0, 1.0), ["a"]))
    assert shown == "Simulator(a; noise Normal(0.0, 1.0); in JAX)"
