"""The experiments: their references are exact, and the paper's findings come out again."""

import json
from unittest.mock import ANY

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from owlfi import SquaredExponential, models
from owlfi.experiments import EXPERIMENTS, figure3d, table1
from owlfi.experiments.composite_cases import arrange, run_tests
from owlfi.experiments.composite_tests import AGGREGATE, POWER_LAWS, POWER_WAYS
from owlfi.experiments.convergence import measured_slope
from owlfi.experiments.excess import excesses, law_of, moving_average_law, product_rule, sample
from owlfi.experiments.experiment import Plan
from owlfi.experiments.figure3 import EQUAL, GAUSSIAN, UNIFORM
from owlfi.experiments.figure3d import costs
from owlfi.experiments.levels import MODELS, POINTS, WAYS, run_test

KEY = jax.random.key(5)


def median(records, series, x):
    (point,) = [p for p in records if p["series"] == series and p["x"] == x]
    return point["median"]


# References


@pytest.mark.parametrize("make", [models.g_and_k, models.two_moons])
def test_law_on_a_product_grid_is_the_mean_over_many_draws(make):
    simulator = make()
    kernel, n = SquaredExponential(0.3), 40_000
    law = law_of(KEY, simulator, simulator.theta, kernel)
    y = np.asarray(sample(KEY, simulator, simulator.theta, n))
    at = y[:5] + 0.1
    expected = np.asarray(kernel.gram(jnp.asarray(at), jnp.asarray(y))).mean(1)
    assert_allclose(law.mean(jnp.asarray(at)), expected, atol=5 * 0.5 / np.sqrt(n))
    assert_allclose(
        law.norm2, np.mean(law.mean(jnp.asarray(y[:4000]))), atol=5 * 0.5 / np.sqrt(4000)
    )


def test_product_rule_integrates_moments():
    u, w = product_rule(models.two_moons().measure)
    assert_allclose(w.sum(), 1.0, rtol=1e-14)
    assert_allclose(w @ u, [0.0, 0.1], atol=1e-14)
    assert_allclose(w @ (u - jnp.array([[0.0, 0.1]])) ** 2, [np.pi**2 / 12, 1e-4], rtol=1e-13)


def test_law_of_a_moving_average_is_the_one_of_many_sobol_points():
    simulator, kernel = models.moving_average(), SquaredExponential(3.0)
    exact = moving_average_law(simulator.theta, 10, kernel)
    near = law_of(KEY, simulator, simulator.theta, kernel, 2**14)
    y = sample(KEY, simulator, simulator.theta, 6)
    assert_allclose(near.mean(y), exact.mean(y), rtol=2e-3)
    assert_allclose(near.norm2, exact.norm2, rtol=2e-3)


def test_excess_of_the_law_itself_is_nothing():
    simulator, kernel = models.g_and_k(), SquaredExponential(0.7)
    law = law_of(KEY, simulator, simulator.theta, kernel)
    nothing = excesses(kernel, law, law.rows[None], law.weights[None, None])
    assert_allclose(nothing, [[0.0]], atol=1e-14)


def test_mean_excess_of_equal_weights_is_known():
    simulator, kernel, m = models.g_and_k(), SquaredExponential(0.7), 50
    law = law_of(KEY, simulator, simulator.theta, kernel)
    y = sample(KEY, simulator, simulator.theta, 400 * m).reshape(400, m, 1)
    errors = excesses(kernel, law, y, jnp.full((400, 1, m), 1 / m))
    expected = (1 - law.norm2) / m
    assert_allclose(errors.mean(), expected, atol=4 * float(errors.std()) / np.sqrt(400))


# Table 1


CHEAPEST = ["g-and-k", "two moons"]
ALL_BUT_THE_DEAREST = [name for name in table1.ROWS if name != "Lotka-Volterra"]


@pytest.mark.parametrize(
    ("names", "repeats"),
    [(CHEAPEST, 3), pytest.param(ALL_BUT_THE_DEAREST, 8, marks=pytest.mark.slow)],
    ids=["cheapest", "all but the dearest"],
)
def test_table_1_agrees_with_the_paper(monkeypatch, names, repeats):
    monkeypatch.setattr(table1, "ROWS", {name: table1.ROWS[name] for name in names})
    results = table1.arrange(list(table1.run(KEY, Plan(repeats, quick=True))))
    assert list(results) == names
    for name, points, estimator in (
        (name, points, estimator)
        for name in results
        for points in ("iid", "rqmc")
        for estimator in ("v", "ow")
    ):
        cell = results[name][points][estimator]
        spread = max(cell["std"], cell["paper"]["std"])
        error = spread * np.sqrt(1 / repeats + 1 / 100)
        assert abs(cell["mean"] - cell["paper"]["mean"]) < 4 * error, (name, points, estimator)
        assert abs(cell["mean"] - results[name]["floor"] - cell["excess_mean"]) < 4 * error
        assert 0 < cell["excess_median"] < 10 * cell["excess_mean"]


def test_same_key_gives_the_same_records(monkeypatch):
    monkeypatch.setattr(table1, "ROWS", {"g-and-k": table1.ROWS["g-and-k"]})
    first, second = (list(table1.run(KEY, Plan(2, quick=True))) for _ in range(2))
    assert first == second


# All of them


@pytest.mark.parametrize("name", sorted(set(EXPERIMENTS) - {"windfarm"}))  # fewer thetas there
def test_usual_plan_is_more_work_than_the_quick_one(name):
    experiment = EXPERIMENTS[name]
    usual, quick = experiment.plan(), experiment.plan(quick=True)
    assert usual.repeats * experiment.steps(usual) > quick.repeats * experiment.steps(quick)
    assert experiment.plan(repeats=7).repeats == 7


def test_experiment_writes_numbers_and_a_picture(tmp_path, monkeypatch):
    monkeypatch.setattr(figure3d, "_sizes", lambda plan: (50,))
    monkeypatch.setattr(figure3d, "law_points", lambda plan: 512)
    experiment = EXPERIMENTS["figure3d"]
    plan = experiment.plan(repeats=2, quick=True)
    records = list(experiment.run(KEY, plan))
    assert len(records) == experiment.steps(plan)
    numbers, picture = experiment.write(tmp_path, 5, plan, records)
    content = json.loads(numbers.read_text())
    assert content["complete"]
    assert content["results"] == records
    assert picture.stat().st_size > 10_000
    assert len(experiment.table(records).rows) == len(records)


@pytest.mark.slow
def test_figure_3a_smooth_k_is_best():
    records = list(EXPERIMENTS["figure3a"].run(KEY, Plan(10, quick=True)))
    at = {
        (k, c): median(records, f"k {k}, c {c}", 256)
        for k in ("SE", "Matérn")
        for c in ("SE", "Matérn")
    }
    smooth, rough = (
        max(at["SE", c] for c in ("SE", "Matérn")),
        min(at["Matérn", c] for c in ("SE", "Matérn")),
    )
    assert smooth < rough


@pytest.mark.slow
def test_figure_3b_gaussian_noise_wins_while_the_dimension_is_low():
    records = list(EXPERIMENTS["figure3b"].run(KEY, Plan(10, quick=True)))
    for d in (5, 20):
        assert (
            median(records, GAUSSIAN, d) < median(records, UNIFORM, d) < median(records, EQUAL, d)
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["figure3c", "figure-theta3"])
def test_figure_3c_error_grows_with_the_parameter_and_equal_weights_do_not_care(name):
    records = list(EXPERIMENTS[name].run(KEY, Plan(10, quick=True)))
    values = sorted({point["x"] for point in records})
    for series in (GAUSSIAN, UNIFORM):
        assert median(records, series, values[0]) < median(records, series, values[-1])
    equal = [median(records, EQUAL, x) for x in values]
    assert max(equal) < 2 * min(equal)


@pytest.mark.slow
def test_figure_3d_optimal_weights_are_below_equal_ones_at_equal_cost():
    records = list(EXPERIMENTS["figure3d"].run(KEY, Plan(20, quick=True)))
    ways = [[p for p in records if p["series"].startswith(way)] for way in ("equal", "optimal")]
    for equal, optimal in zip(*ways, strict=True):
        assert costs(optimal)[1] < costs(equal)[1]
        assert optimal["median"] < equal["median"]


@pytest.mark.slow
def test_convergence_is_faster_with_optimal_weights_where_the_dimension_is_low():
    experiment = EXPERIMENTS["convergence"]
    results = experiment.arrange(list(experiment.run(KEY, Plan(10, quick=True))))
    for name in ("g-and-k", "two moons", "bivariate beta"):
        slopes = results[name]["slopes"]
        assert slopes["optimal weights"] < slopes["equal weights"] - 0.2
    for result in results.values():
        assert -1.4 < result["slopes"]["equal weights"] < -0.6


def test_slope_of_a_power_is_its_exponent():
    points = [{"x": m, "median": 3.0 * m**-1.7} for m in (4, 8, 32)]
    assert_allclose(measured_slope(points), -1.7)


# Resuming


def test_finished_steps_are_kept_and_go_on_with_the_same_seed_only(tmp_path):
    experiment, plan = EXPERIMENTS["table2"], Plan(repeats=1)
    assert experiment.read_kept(tmp_path, 0, plan) == []
    for number in range(3):
        experiment.keep(tmp_path, 0, plan, {"repeat": number})
    with (tmp_path / "table2.partial.jsonl").open("a") as file:
        file.write('{"repeat": 3, "p_va')  # cut off by a kill
    assert experiment.read_kept(tmp_path, 0, Plan(repeats=5)) == [{"repeat": i} for i in range(3)]
    experiment.keep(tmp_path, 0, plan, {"repeat": 3})
    assert experiment.read_kept(tmp_path, 0, Plan(repeats=5)) == [{"repeat": i} for i in range(4)]
    assert experiment.read_kept(tmp_path, 1, plan) == []


def test_power_is_of_every_rule_and_the_aggregate_has_300_nulls():
    experiment = EXPERIMENTS["power"]
    plan = experiment.plan()
    tests = len(POWER_LAWS) * len(POWER_WAYS)
    assert experiment.steps(plan) == tests * plan.repeats + 250
    assert plan.repeats + 250 == 300
    assert experiment.steps(experiment.plan(quick=True)) == tests


# Levels


def test_p_values_of_true_models_are_spread_over_their_steps_and_judged():
    experiment, plan = EXPERIMENTS["levels"], EXPERIMENTS["levels"].plan()
    assert experiment.steps(plan) == 150 * 3 * (3 + 2)  # the aggregate on few points only
    random = np.random.default_rng(0)
    records = [
        {
            "model": "a",
            "m": 64,
            "way": way,
            "p_value": p,
            "spread_p_value": p - random.uniform() / 100,
            "warnings": [],
            "seconds": 1.0,
        }
        for way, power in (("parametric", 1), ("wild", 2))
        for p in np.ceil(100 * random.uniform(size=150) ** power) / 100  # squares lean small
    ]
    right, wrong = experiment.arrange(records)
    assert right["kolmogorov_smirnov"] > 0.01 > 1e-6 > wrong["kolmogorov_smirnov"]
    assert 0.01 < right["rate"] < 0.1 < wrong["rate"]
    assert len(experiment.table(records).rows) == 2


def test_a_test_of_the_levels_is_one_of_rows_at_the_truth():
    record = run_test(KEY, 0, "log-normal copula", 64, "wild")
    assert record == {**run_test(KEY, 0, "log-normal copula", 64, "wild"), "seconds": ANY}
    assert 0 < record["spread_p_value"] < record["p_value"] <= 1


@pytest.mark.slow
@pytest.mark.parametrize("m", POINTS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("model", MODELS)
def test_p_values_of_true_models_are_uniform(model, way, m):
    records = [run_test(KEY, repeat, model, m, way) for repeat in range(150)]
    (cell,) = EXPERIMENTS["levels"].arrange(records)
    assert cell["kolmogorov_smirnov"] > 0.01


@pytest.mark.slow
def test_the_aggregate_sees_a_cluster_of_a_twentieth_of_the_rows():
    law, way = "5% in a cluster", AGGREGATE
    steps = [(repeat, law, way) for repeat in range(20)]
    found = arrange(list(run_tests(KEY, POWER_LAWS, POWER_WAYS, steps, quick=False)))
    assert found[law][way]["rate"] >= 0.5
