"""Models are told apart where the data can tell them apart, and not otherwise."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import owlfi
from owlfi import HealthWarning, Matern, Normal, OptimallyWeighted, Prior, Problem, Simulator
from owlfi.results.comparison import adjust_pairs

RULE = OptimallyWeighted(64, base_kernel=Matern(2.5))


def simulator(function, dim, **prior):
    known = Prior(**prior)
    return Simulator(function, Normal(dim=dim), known.names, prior=known)


SHIFT = simulator(lambda theta, u: theta[0] + u, 1, mean=Normal(0.0, 3.0))
SCALE = simulator(
    lambda theta, u: theta[0] + theta[1] * u, 1, mean=Normal(0.0, 3.0), sd=owlfi.Uniform(0.1, 4.0)
)
SKEWED = simulator(
    lambda theta, u: theta[0] + jnp.exp(theta[1] * u),
    1,
    mean=Normal(0.0, 3.0),
    log_sd=owlfi.Uniform(0.1, 1.5),
)
FIRST = simulator(
    lambda theta, u: jnp.stack([theta[0] + u[:, 0], 1.5 * u[:, 1]], 1), 2, mean=Normal(0.0, 3.0)
)
SECOND = simulator(
    lambda theta, u: jnp.stack([1.5 * u[:, 0], theta[0] + u[:, 1]], 1), 2, mean=Normal(0.0, 3.0)
)
NESTED, OVERLAPPING = {"shift": SHIFT, "scale": SCALE}, {"first": FIRST, "second": SECOND}
RIVALS = {"scale": SCALE, "skewed": SKEWED}
EQUAL_SHARE = 0.4935  # at which both rivals are wrong, and as near to the data of many rows


def normal_data(seed, n=200, sd=(1.0,)):
    return np.random.default_rng(seed).normal(size=(n, len(sd))) * np.array(sd)


def skewed_data(seed, share, n=200):
    """A mean of a normal and a log-normal sample's quantiles."""
    z = np.random.default_rng(seed).normal(size=(n, 1))
    return (1 - share) * z + share * (np.exp(z) - 1)


def compare(seed, models, x, resamples=99, rule=RULE):
    problems = {name: Problem(model, x) for name, model in models.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HealthWarning)
        return owlfi.compare(jax.random.key(seed), problems, rule, resamples=resamples)


def share_told(models, make, trials):
    return np.mean([not compare(seed, models, make(seed)).undecided for seed in range(trials)])


def test_a_model_that_is_nearer_is_told():
    found = compare(0, NESTED, normal_data(0, 100, (2.0,)))
    assert found.ranking == ("scale", "shift")
    assert found.undecided == ()
    assert found["scale"] < 0.01 < found["shift"]
    assert "Farther than it: shift" in found.summary()
    assert found.about["estimates"]["scale"]["sd"] == pytest.approx(2.0, abs=0.5)


def test_nested_models_that_both_fit_cannot_be_told_apart():
    found = compare(0, NESTED, normal_data(0, 100))
    assert len(found.undecided) == 1
    assert "they cannot tell it from" in found.verdict
    assert abs(found["shift"]) < 4 * float(found.errors.max())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("models", "make"),
    [
        (NESTED, normal_data),  # the same at their best
        (OVERLAPPING, lambda seed: normal_data(seed, sd=(1.3, 1.3))),  # as near from two sides
        (RIVALS, lambda seed: skewed_data(seed, EQUAL_SHARE)),  # as near, and of different kinds
    ],
    ids=["nested", "overlapping", "rivals"],
)
def test_level_on_equally_near_models(models, make):
    """At level 0.05, more than 10 of 100 have probability 1%."""
    assert share_told(models, make, 100) <= 0.10


@pytest.mark.slow
def test_fits_that_few_points_spoil_tell_nothing_of_nested_models():
    """Both fits lie where their points put them, far from each other for 800 rows."""
    told = [
        not compare(seed, NESTED, normal_data(seed, 800), rule=owlfi.VStatistic(16)).undecided
        for seed in range(25)
    ]
    assert np.mean(told) <= 0.2  # more than 5 of 25 have probability 0.1% at level 0.05


@pytest.mark.slow
@pytest.mark.parametrize(
    ("models", "makes"),
    [
        (NESTED, [lambda s, sd=sd: normal_data(s, sd=(sd,)) for sd in (1.0, 1.25, 1.6)]),
        (
            OVERLAPPING,
            [lambda s, g=g: normal_data(s, sd=(1.3 - g, 1.3 + g)) for g in (0.0, 0.12, 0.3)],
        ),
        (
            RIVALS,
            [lambda s, share=share: skewed_data(s, share) for share in (EQUAL_SHARE, 0.75, 1.0)],
        ),
    ],
    ids=["nested", "overlapping", "rivals"],
)
def test_power_grows_with_the_difference(models, makes):
    told = [share_told(models, make, 20) for make in makes]
    assert told[-1] >= 0.8
    assert told[-1] >= told[1] - 0.15


def test_a_model_of_which_some_rows_fail_is_compared_and_one_that_always_fails_is_named():
    x, whole = normal_data(0, 100), lambda theta, u: theta[0] + u
    some = simulator(
        lambda theta, u: jnp.where(u > 2.0, jnp.nan, whole(theta, u)), 1, mean=Normal(0.0, 3.0)
    )
    found = compare(0, {"shift": SHIFT, "some": some}, x)
    assert len(found.undecided) == 1
    assert np.isfinite(found.squared_mmd).all()
    assert any("some: 2% of the simulations failed" in told for told in found.warnings)
    none = simulator(lambda theta, u: jnp.nan * whole(theta, u), 1, mean=Normal(0.0, 3.0))
    with pytest.raises(ValueError, match=r"^problems\['none'\]: "):
        compare(0, {"none": none, "shift": SHIFT}, x)


def test_pairs_are_adjusted_for_each_other():
    p = np.array([[1, 0.01, 0.04], [0.01, 1, 0.03], [0.04, 0.03, 1]])
    assert np.allclose(adjust_pairs(p)[np.triu_indices(3, 1)], [0.03, 0.06, 0.06])


def test_wrong_input_is_refused():
    x = normal_data(0, 20)
    one, other = Problem(SHIFT, x), Problem(SCALE, x[:-1])
    key = jax.random.key(0)
    with pytest.raises(ValueError, match=r"problems must hold at least two, got \['a'\]"):
        owlfi.compare(key, {"a": one}, RULE)
    with pytest.raises(ValueError, match=r"problems\['b'\] has other observations"):
        owlfi.compare(key, {"a": one, "b": other}, RULE)
    with pytest.raises(ValueError, match="resamples = 3 can never reject"):
        owlfi.compare(key, {"a": one, "b": one}, RULE, resamples=3)
