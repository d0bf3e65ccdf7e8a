"""Ordinary simulators become functions of theta and u, whatever they are made of."""

import random
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.stats import ks_2samp

import owlfi
from ordinary_simulators import SIMULATORS, of_seed, sir
from owlfi import (
    OptimallyWeighted,
    Prior,
    Problem,
    Seed,
    Simulator,
    Uniform,
    iid,
    rejection_abc,
    sobol,
    two_sample,
)
from owlfi.campaign.encoding import decode, encode
from owlfi.problem.recorded_noise.kinds import KINDS
from owlfi.problem.recorded_noise.noise import Noise
from owlfi.problem.recorded_noise.rows import as_row
from owlfi.weights.quadrature import Pilot, unweighted

PRIOR = Prior(a=Uniform(0.5, 1.0))
NUMBERS = np.random.default_rng(0)


def from_random(function, **options):
    return Simulator.from_random(function, ["a"], prior=PRIOR, **options)


def middle(prior):
    return np.asarray(prior.from_uniform(np.full((1, len(prior.names)), 0.6)))[0]


def record(function, **options):
    prior = SIMULATORS[function]
    return Simulator.from_random(function, prior.names, prior=prior, **options)


def draw_noise(simulator, rows):
    """Independent rows u, without a program of JAX for each measure."""
    rng = np.random.default_rng(1)
    blocks = simulator.generator.blocks
    return np.hstack([KINDS[kind].draw(rng, rows * n).reshape(rows, n) for kind, n in blocks])


def draw_both(function, rows):
    """Rows by u, and by a plain generator."""
    simulator, theta = record(function), middle(SIMULATORS[function])
    plain = np.random.default_rng(3)
    expected = np.stack([as_row(function(theta.copy(), plain)) for _ in range(rows)])
    return simulator.generator(theta, draw_noise(simulator, rows)), expected


# Ten simulators


@pytest.mark.parametrize("function", SIMULATORS)
def test_law_is_the_same(function):
    found, expected = draw_both(function, 150)
    tests = [ks_2samp(a, b).pvalue for a, b in zip(found.T, expected.T, strict=True)]
    assert min(tests) * len(tests) > 0.001


@pytest.mark.parametrize("function", SIMULATORS)
def test_y_repeats_alone_and_in_other_processes(function):
    theta, simulator = middle(SIMULATORS[function]), record(function)
    u = draw_noise(simulator, 4)
    y = simulator.generator(theta, u)
    assert simulator.generator(theta, u[2:3]).tobytes() == y[2:3].tobytes()
    assert record(function, workers=2).generator(theta, u).tobytes() == y.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("function", SIMULATORS)
def test_law_is_the_same_in_5000_rows(function):
    found, expected = draw_both(function, 5000)
    assert two_sample(jax.random.key(0), found, expected).p_value > 0.001


# What is found


def test_the_noise_is_a_table():
    noise = record(sir).noise
    assert isinstance(noise, Noise)
    lines = str(noise).splitlines()
    assert lines[0] == "20 binomial, 20 binomial draws -> Uniform, dim = 40"
    assert lines[3].split()[:3] == ["20", "binomial", "uniform"]
    assert "ordinary_simulators.py:" in lines[3]
    assert "<table>" in noise._repr_html_()


def test_coordinates_are_natural_and_in_order():
    def function(theta, rng):
        rng.shuffle([1, 2])
        return [np.sin(rng.normal()), rng.exponential(), rng.gamma(2.0), rng.weibull(2.0)]

    assert repr(from_random(function).measure) == (
        "Product(Uniform(0.0, 1.0, dim=2), Normal(0.0, 1.0), Exponential(1.0), "
        "Normal(0.0, 1.0), Exponential(1.0))"
    )


def rejecting(theta, rng):
    while True:
        z = rng.normal()
        if z > theta[0]:
            return z


def test_numbers_of_draws_that_change():
    simulator = from_random(rejecting)
    noise = simulator.noise
    assert noise.draws[0] == 1
    assert 1 < noise.dim < noise.draws[1]
    assert 0 < noise.beyond < 0.1
    assert "have no place in u" in str(noise)
    assert from_random(rejecting, draws=3).measure.dim == 3
    few = from_random(rejecting, draws=1)
    assert few.noise.beyond > 0.5
    assert "draws have no place in u" in Problem(few, np.arange(9.0)).warnings[0]
    assert_allclose(few([0.5], [[0.75]]), [[0.75]])
    assert float(few([0.5], [[0.25]])[0, 0]) > 0.5


def test_kinds_that_differ_at_one_place_go_through_uniforms():
    def function(theta, rng):
        first = rng.normal() if rng.random() < 0.5 else rng.exponential()
        return [first, np.sin(rng.normal())]

    assert (
        repr(from_random(function).measure) == "Product(Uniform(0.0, 1.0, dim=2), Normal(0.0, 1.0))"
    )


def test_shares_of_the_variation():
    def function(theta, rng):
        large, small = rng.normal(0.0, 3.0), rng.uniform(-1.0, 1.0)
        return np.array([large + small, 0.0])

    simulator = from_random(function)
    u = draw_noise(simulator, 64)
    runs = Pilot(jnp.ones((1, 1)), jnp.asarray(simulator([0.7], u))[None], 64)
    weighed = simulator.noise.weigh(
        eqx.tree_at(
            lambda q: q.pilot, unweighted(jnp.asarray(u)), runs, is_leaf=lambda leaf: leaf is None
        )
    )
    assert weighed.shares[0] > 0.85
    assert 0.01 < weighed.shares[1] < 0.1
    assert "share of y" in str(weighed)
    with pytest.raises(ValueError, match="no simulations"):
        simulator.noise.weigh(unweighted(jnp.asarray(u)))


def test_simulators_with_parameters_held_or_summaries_know_their_noise():
    prior = Prior(a=Uniform(0, 1), b=Uniform(1, 2))
    simulator = Simulator.from_random(
        lambda theta, rng: np.sin(rng.normal(theta[0], theta[1])), ["a", "b"], prior=prior
    )
    assert simulator.replace(prior=prior).noise == simulator.noise
    assert isinstance(Simulator(lambda t, u: u, Uniform(), ["a"]).noise, Uniform)


@dataclass
class Summary:
    mean: float
    path: np.ndarray


def test_parts_of_a_row_may_have_any_shape():
    found = as_row((1.5, np.ones((2, 2)), {"n": 3, "more": [2.0, [4]]}, [True]))
    assert_allclose(found, [1.5, 1, 1, 1, 1, 3, 2, 4, 1])
    assert_allclose(as_row([2.0, Summary(1.0, np.zeros(2))]), [2, 1, 0, 0])
    for wrong in (None, [None], [1.0, "a"], {"a": ["b"]}, [], [1.0, []], 1j):
        with pytest.raises(ValueError, match="one row of real numbers"):
            as_row(wrong)


# Where random numbers come from


class Walker:
    def __init__(self):
        self.rng = np.random.default_rng(0)
        self.legs = type("Legs", (), {})()
        self.legs.state = np.random.RandomState(0)

    def walk(self, theta, steps=3):
        return np.sin(self.rng.normal(size=steps)) + self.legs.state.randn()


def test_objects_that_keep_generators():
    walker = Walker()
    own = walker.rng
    simulator = from_random(walker.walk)
    assert simulator.measure.dim == 4
    u = [[0.0, 0.5, 1.0, 2.0]]
    assert_allclose(simulator([0.7], u), np.sin([[0.0, 0.5, 1.0]]) + 2.0)
    assert walker.rng is own


class World:
    """Agents that share a generator, and know their world."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.agents, self.own = [Agent(self, rng), Agent(self, rng)], {"rngs": [rng]}

    def simulate(self, theta):
        return [np.sin(agent.rng.normal()) for agent in self.agents] + [
            self.own["rngs"][0].random()
        ]


class Agent:
    def __init__(self, world, rng):
        self.world, self.rng = world, rng


def test_lists_and_dicts_of_objects_that_keep_generators():
    world = World()
    own = world.agents[1].rng
    simulator = from_random(world.simulate)
    assert_allclose(simulator([0.7], [[0.5, 1.0, 0.2]]), [[np.sin(0.5), np.sin(1.0), 0.2]])
    assert world.agents[1].rng is own
    assert world.own["rngs"][0] is own


def by_children(theta, rng):
    first, second = rng.spawn(2)
    return [np.sin(first.normal()), second.exponential(theta[0])]


def by_sequence(theta, rng):
    """The way before rng.spawn."""
    first, second = map(np.random.default_rng, rng.bit_generator.seed_seq.spawn(2))
    return [np.sin(first.normal()), second.exponential(theta[0])]


def by_seed(theta, seed):
    return np.sin(np.random.default_rng(seed).normal(size=2))


def by_state(theta, random_state):
    return np.sin(random_state.randn(2))


def by_name(theta, scale=2.0, *, generator=None):
    return scale * np.sin(generator.normal(size=2))


@pytest.mark.parametrize(
    ("function", "argument"),
    [
        (by_children, None),
        (by_sequence, None),
        (by_seed, None),
        (by_seed, "seed"),
        (by_state, None),
        (by_name, None),
        (lambda *given: np.sin(given[1].normal(size=2)), None),
    ],
)
def test_every_argument_for_random_numbers_is_served(function, argument):
    simulator = from_random(function, argument=argument)
    assert simulator.measure.dim == 2
    assert simulator.on_host
    assert np.isfinite(simulator([0.7], [[0.5, 0.25]])).all()


def test_a_seed_that_must_be_a_number_is_the_coordinate():
    simulator = from_random(of_seed)
    assert isinstance(simulator.measure, Seed)
    assert_allclose(simulator([0.7], [[5.0]])[0], of_seed([0.7], 5))
    problem = Problem(simulator, simulator([0.7], iid(jax.random.key(0), 50, Seed())))
    quadrature = OptimallyWeighted(m=16).quadrature(jax.random.key(1), problem)
    assert quadrature.independent
    assert_allclose(quadrature.weights, 1 / 16)
    assert "u is a seed" in quadrature.explain()
    posterior = rejection_abc(
        jax.random.key(2), problem, OptimallyWeighted(m=16), draws=20, share=0.5
    )
    assert posterior.draws.shape == (10, 1)


# JAX


def scanned(theta, rng):
    z = rng.normal(size=(5, 2))
    return jax.lax.scan(lambda x, e: (theta[0] * x + e,) * 2, jnp.zeros(2), z)[1]


def test_one_function_serves_numpy_and_jax():
    simulator = from_random(scanned)
    assert not simulator.on_host
    u = np.random.default_rng(0).normal(size=(3, 10))
    expected = np.zeros((3, 5, 2))
    state = np.zeros((3, 2))
    for i in range(5):
        state = expected[:, i] = 0.7 * state + u[:, 2 * i : 2 * i + 2]
    assert_allclose(simulator([0.7], u), expected.reshape(3, 10), rtol=1e-14)
    slope = jax.grad(lambda theta: simulator(theta, u)[:, 2].sum())(jnp.array([0.7]))
    assert_allclose(slope, [u[:, 0].sum()])


def catches(theta, rng):
    """JAX would raise at the comparison."""
    try:
        return rng.normal() if rng.normal() > 0 else theta[0]
    except Exception:
        return 0.0


def looks_at_types(theta, rng):
    z = rng.normal()
    return 2 * z if isinstance(z, float) else z


def gammas_in_a_loop(theta, rng):
    return sum(rng.gamma(theta[0]) for _ in range(4))


@pytest.mark.parametrize("function", [catches, looks_at_types, gammas_in_a_loop])
def test_plain_numbers_have_the_word_where_jax_differs_or_compiles_for_long(function):
    simulator = from_random(function)
    assert simulator.on_host
    u = np.random.default_rng(1).normal(size=(400, simulator.measure.dim))
    plain = np.random.default_rng(2)
    expected = [function([0.7], plain) for _ in range(400)]
    assert ks_2samp(simulator([0.7], u)[:, 0], expected).pvalue > 0.001


def many_families(theta, rng):
    return {
        "line": rng.gamma(2.0, theta[0]) + rng.uniform() + rng.laplace() + rng.gumbel(),
        "more": rng.lognormal(0.0, theta[0]) + rng.chisquare(3.0) + rng.geometric(0.5),
        "tail": rng.standard_cauchy() + rng.triangular(0, 1, 2) + rng.power(2.0) + rng.logistic(),
        "vector": rng.multivariate_normal([0.0, 1.0], [[1.0, 0.5], [0.5, 2.0]]),
        "shares": rng.dirichlet([1.0, 2.0, 3.0]),
        "counts": [rng.integers(5), rng.choice(3, p=[0.2, 0.5, 0.3]), rng.logseries(0.5)],
        "order": rng.permutation(3),
    }


def test_families_agree_inside_jax_and_on_the_host():
    simulator = from_random(many_families, on_host=False)
    assert not simulator.on_host
    recorded = simulator.generator
    u = np.asarray(sobol(jax.random.key(0), 4, simulator.measure))
    host = np.stack([recorded._run_row(np.array([0.7]), row) for row in u])
    assert_allclose(simulator([0.7], u), host, rtol=1e-9)


def test_where_it_runs_can_be_asked_for():
    walk = lambda theta, rng: theta[0] * rng.normal(size=3).cumsum()  # noqa: E731
    assert not from_random(walk).on_host
    asked = from_random(walk, on_host=True)
    assert asked.on_host
    assert asked.noise.dim == 3


def test_what_jax_cannot_trace_cannot_be_asked_to_run_there():
    with pytest.raises(ValueError, match="on_host is False, but JAX cannot trace the function"):
        from_random(lambda theta, rng: rng.poisson(theta[0]), on_host=False)


def keyed(theta, key):
    first, second = jax.random.split(key)
    path = jax.lax.scan(
        lambda x, k: (theta[0] * x + jax.random.normal(k), x), 0.0, jax.random.split(first, 3)
    )[1]
    again = jax.random.normal(jax.random.split(first, 3)[0])  # the same key, the same number
    uniform = jax.random.uniform(jax.random.fold_in(second, 1), (2,), minval=1.0, maxval=3.0)
    return [
        *path,
        again,
        *uniform,
        jax.random.exponential(second),
        jax.random.randint(key, (), 0, 9),
    ]


def test_a_key_is_followed_to_its_draws():
    simulator = from_random(keyed)
    assert not simulator.on_host
    assert simulator.measure.dim == 3 + 2 + 1 + 1
    u = np.asarray(sobol(jax.random.key(0), 4, simulator.measure))
    y = np.asarray(simulator([0.7], u))
    assert_allclose(y[:, 1], y[:, 3])
    assert ((y[:, 4:6] > 1) & (y[:, 4:6] < 3)).all()
    plain = jax.vmap(lambda key: jnp.stack(keyed(jnp.array([0.7]), key)))
    expected = np.asarray(plain(jax.random.split(jax.random.key(1), 500)))
    found = np.asarray(simulator([0.7], iid(jax.random.key(2), 500, simulator.measure)))
    tests = [ks_2samp(a, b).pvalue for a, b in zip(found.T[1:], expected.T[1:], strict=True)]
    assert min(tests) > 1e-4


def key_in_a_loop(theta, key):
    step = lambda state: (state[0] + 1.0, jax.random.split(state[1])[0])  # noqa: E731
    return jax.lax.while_loop(lambda state: state[0] < theta[0], step, (0.0, key))[0]


def draw_in_a_loop(theta, rng):
    return jax.lax.scan(lambda x, _: (theta[0] * x + rng.normal(), x), 0.0, jnp.arange(5))[1]


# Rows at once


def rows_at_once(theta, rng, m):
    steps = rng.normal(size=(m, 4))
    return np.where(rng.random(m) < theta[0], 1.0, -1.0)[:, None] * np.cumsum(steps, 1)


def test_vectorised_functions():
    simulator = from_random(rows_at_once, vectorised=True)
    assert simulator.measure.dim == 5
    u = np.asarray(sobol(jax.random.key(0), 6, simulator.measure))
    y = np.asarray(simulator([0.7], u))
    assert_allclose(y, np.where(u[:, 4] < 0.7, 1, -1)[:, None] * np.cumsum(u[:, :4], 1))
    assert_allclose(simulator([0.7], u[2:3]), y[2:3])
    by_size = lambda theta, rng, size: np.sin(rng.normal(size=(size, 2)))  # noqa: E731
    assert from_random(by_size, vectorised=True).measure.dim == 2
    with pytest.raises(ValueError, match="must return"):
        from_random(lambda theta, rng, m: np.sin(rng.normal(size=m))[:-1], vectorised=True)
    with pytest.raises(ValueError, match="leading axis"):
        from_random(lambda theta, rng, m: np.sin(rng.normal()) * np.ones(m), vectorised=True)


def test_workers_need_functions_of_modules():
    with pytest.raises(ValueError, match="that other processes can import"):
        from_random(lambda theta, rng: rng.normal(), workers=2)


def test_recorded_simulators_can_be_written_down():
    prior, simulator = SIMULATORS[sir], record(sir)
    text = encode(simulator)
    again = decode(text, imports=True)
    assert encode(again) == text
    u = np.asarray(sobol(jax.random.key(0), 2, simulator.measure))
    assert_allclose(again(middle(prior), u), simulator(middle(prior), u))
    assert again.noise == simulator.noise


# Bad input


def draws_nothing(theta, rng):
    return theta[0]


def returns_nothing(theta, rng):
    rng.normal()


def uses_own_generator(theta, rng):
    return rng.normal() + np.sin(np.random.default_rng().normal())


def uses_own_generator_in_jax(theta, rng):
    return rng.normal() + np.random.default_rng().normal()


MEMORY = []


def remembers(theta, rng):
    MEMORY.append(np.sin(rng.normal()))
    return np.mean(MEMORY)


def needs_more(theta, days, rng):
    return np.sin(rng.normal(size=days))


KEPT = {}


def keeps_draws(theta, rng):
    if not KEPT:
        KEPT["z"] = rng.normal()
    return KEPT["z"] + theta[0] * rng.normal()


def yields(theta, rng):
    yield rng.normal()


def of_parameters(rate, size, rng):
    return rng.gamma(rate, size)


BAD = {
    "keep nothing from call to call": remembers,
    "uses what it kept from another call": keeps_draws,
    "return a list of what it yields": yields,
    r"\*theta for its parameters": of_parameters,
    "real numbers.*j": lambda theta, rng: rng.normal() * 1j,
    "select_dtypes": lambda theta, rng: pd.DataFrame({"who": ["a"], "n": [rng.poisson(1.0)]}),
    "needs_more needs days beside theta and rng": needs_more,
    "nothing was drawn from rng in 8 runs": draws_nothing,
    "end it with `return y`": returns_nothing,
    "must return one row of real numbers": lambda theta, rng: f"{rng.normal()}",
    "as many numbers in every run": lambda theta, rng: np.sin(rng.normal(size=rng.integers(1, 4))),
    "global generator of np.random": lambda theta, rng: rng.normal() + np.sin(np.random.normal()),
    "global generator of random": lambda theta, rng: rng.normal() + random.gauss(0, 1),
    "the generator 'NUMBERS'": lambda theta: NUMBERS.normal(),
    "takes only theta": lambda theta: theta,
    "the global np.random or random": lambda theta: np.random.normal(),
    "it has a generator of its own, by default_rng instead": lambda theta, rng: (
        np.random.default_rng(5).normal()
    ),
    "y is not determined by theta and rng: at": uses_own_generator,
    "take all random numbers from rng": uses_own_generator_in_jax,
    "rng.bit_generator.random_raw cannot be taken from u": lambda theta, rng: (
        rng.bit_generator.random_raw()
    ),
    "is called inside jit, scan, vmap": draw_in_a_loop,
    "the key goes into while": key_in_a_loop,
    "the key goes into random_gamma": lambda theta, key: jax.random.gamma(key, theta[0]),
    "JAX cannot trace it": lambda theta, key: np.sin(jax.random.normal(key)),
    "nothing was drawn from key": lambda theta, key: theta,
    "must be a function of theta and rng": 3.0,
}


def seldom_short(theta, rng):
    """In one of 50 runs, which few dry runs meet."""
    return np.sin(rng.normal(theta[0], size=3 if rng.random() < 0.98 else 2))


def test_rows_that_are_seldom_of_another_length_are_not_taken_for_failures():
    model = from_random(seldom_short)
    problem = Problem(model, np.random.default_rng(0).normal(size=(20, 3)))
    rule = owlfi.VStatistic(m=64)
    for method in (owlfi.rejection_abc, owlfi.minimum_distance, owlfi.goodness_of_fit):
        with pytest.raises(
            ValueError, match="as many numbers in every run, got rows of 2 and of 3"
        ):
            method(jax.random.key(0), problem, rule)


@pytest.mark.parametrize("message", BAD)
def test_what_cannot_be_served_is_explained(message):
    with pytest.raises(ValueError, match=message):
        from_random(BAD[message])


def test_wrong_arguments():
    with pytest.raises(ValueError, match="argument is 'rnd', but by_state has random_state"):
        from_random(by_state, argument="rnd")
    with pytest.raises(ValueError, match="give prior="):
        Simulator.from_random(by_state, ["a"])
    with pytest.raises(ValueError, match="draws must be a whole number"):
        from_random(by_state, draws=0)
    assert Simulator.from_random(by_state, ["a"], theta=[0.7]).measure.dim == 2


def of_long_tails(theta, rng):
    z = rng.normal()
    if z > 4.0:
        raise ArithmeticError("too large")
    return np.sin(z)


@pytest.mark.parametrize("workers", [1, 2])
def test_rows_that_raise_are_nan_beside_others(workers):
    generator = from_random(of_long_tails, workers=workers).generator
    y = generator([0.7], [[0.5], [5.0], [0.1]])
    assert_allclose(y, [[np.sin(0.5)], [np.nan], [np.sin(0.1)]])
    with pytest.raises((ArithmeticError, RuntimeError), match="too large"):
        generator([0.7], [[5.0], [6.0]])


def test_functions_that_raise_at_some_thetas_or_at_all():
    def at_some(theta, rng):
        if theta[0] > 0.8:
            raise ArithmeticError("no solution")
        return np.sin(rng.normal())

    with pytest.warns(UserWarning, match=r"raised in \d of 8 dry runs, first ArithmeticError"):
        from_random(at_some)

    def at_all(theta, rng):
        raise ArithmeticError("no solution")

    with pytest.raises(ArithmeticError, match="no solution"):
        from_random(at_all)
    with pytest.raises(NameError):
        from_random(lambda theta, rng: unknown)  # noqa: F821
    with pytest.raises(IndexError, match="out of bounds"):  # JAX would read the last one
        from_random(lambda theta, rng: theta[1] * rng.normal())


class OfItsClass:
    rng = np.random.default_rng(0)

    def simulate(self, theta):
        return np.sin(self.rng.normal(size=2))


class InASlot:
    __slots__ = ("rng",)

    def __init__(self):
        self.rng = np.random.default_rng(0)

    def simulate(self, theta):
        return np.sin(self.rng.normal(size=2))


@pytest.mark.parametrize("kind", [OfItsClass, InASlot])
def test_generators_of_classes_and_in_slots_are_found(kind):
    owner = kind()
    own, simulator = owner.rng, from_random(owner.simulate)
    assert_allclose(simulator([0.7], [[0.3, -0.5]]), [np.sin([0.3, -0.5])])
    assert owner.rng is own


def test_what_is_masked_is_missing():
    masked = from_random(lambda theta, rng: np.ma.masked_greater(rng.normal(size=2), 1.0))
    assert_allclose(masked.generator([0.7], [[0.3, 1.5]]), [[0.3, np.nan]])


def test_an_argument_that_nothing_but_its_place_speaks_for_is_named():
    def of_scalars(mean, sd):
        return mean + sd * np.random.normal()

    with pytest.raises(TypeError) as raised:
        from_random(of_scalars)
    assert "'sd' was given the generator" in raised.value.__notes__[0]


def test_long_loops_are_not_traced_by_jax():
    def function(theta, rng):
        return sum(rng.normal() for _ in range(1100))

    simulator = from_random(function)
    assert simulator.on_host
    assert simulator.measure.dim == 1100


def test_a_long_loop_is_run_a_few_times_only(monkeypatch):
    monkeypatch.setattr("owlfi.problem.recorded_noise.dry_runs._LONG", 5000)
    monkeypatch.setattr("owlfi.problem.recorded_noise.sites._MOST_NOTED", 5000)
    runs = []

    def function(theta, rng):
        runs.append(theta)
        return np.sin(sum(rng.random() for _ in range(5001)))

    with pytest.warns(UserWarning, match="5,001 draws: the first 2,000 come from u"):
        from_random(function)
    assert len(runs) <= 5  # two of them to see whether y repeats, one stopped by JAX


def test_a_million_draws_are_a_warning():
    with pytest.warns(UserWarning, match=r"1,000,000 draws: the first 2,000 come from u"):
        simulator = from_random(lambda theta, rng: np.mean(rng.normal(size=10**6)))
    assert simulator.measure.dim == 2000
