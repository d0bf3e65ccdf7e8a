"""What tuned weights and adaptive points bring, on the models of the paper."""

from unittest.mock import ANY

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from owlfi.experiments import EXPERIMENTS, beyond, dimensions
from owlfi.experiments.experiment import Plan
from owlfi.weights.certificate import UNSEEN_TAILS

CHOSEN = ("learned", "regressed", "adaptive")
KEY = jax.random.key(0)


def record(model, m, scale):
    """Two repeats with known ratios: tuned errors are a tenth of equal ones, the paper's half."""
    rules = {"v": [scale, 4 * scale], "paper": [scale / 2, 2 * scale]}
    rules["tuned"] = [scale / 10, 4 * scale / 10]
    best = {"v": [scale / 2] * 2, "tuned": [scale / 100] * 2}
    certificate = [scale / 20, 4 * scale / 20]
    return {
        "model": model,
        "s": 1,
        "m": m,
        "excess": {"iid": rules, "sobol": rules} | dict.fromkeys(CHOSEN, best),
        "certificate": dict.fromkeys(("iid", "sobol", *CHOSEN), certificate),
        "tails": {points: [2.0, 4.0] for points in ("iid", "sobol", *CHOSEN)},
        "pilot": {points: [100, 300] for points in CHOSEN},
    }


def test_results_hold_every_ratio():
    results = beyond.arrange([record("a", 64, 1.0), record("a", 64, 1.0), record("b", 64, 2.0)])
    tuned = results["a"]["64"]["sobol"]["tuned"]
    assert tuned["repeats"] == 4
    assert tuned["excess_median"] == pytest.approx(0.25)
    assert tuned["ratio_to_v"] == pytest.approx(0.1)
    assert tuned["ratio_to_paper"] == pytest.approx(0.2)
    assert tuned["certificate_ratio"] == pytest.approx(0.5)
    assert tuned["tails_median"] == pytest.approx(3.0)
    adaptive = results["b"]["64"]["adaptive"]["tuned"]
    assert adaptive["ratio_to_v"] == pytest.approx(np.median([0.01, 0.0025]))
    assert adaptive["pilot_median"] == 200
    assert "certificate_ratio" not in results["a"]["64"]["iid"]["v"]


# Median excesses of a prototype at m = 256: Sobol points with tuned weights, adaptive points.
EXPECTED = {
    "g-and-k": (3.2e-7, 1.4e-12),
    "two moons": (8.8e-13, 3.2e-13),
    "bivariate beta": (9.7e-5, 5.1e-5),
    "mv g-and-k, d = 5": (2.4e-5, 5.3e-6),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPECTED)
def test_tuned_weights_and_adaptive_points_keep_what_they_promise(name, monkeypatch):
    monkeypatch.setattr(beyond, "MODELS", {name: beyond.MODELS[name]})
    monkeypatch.setattr(beyond, "_sizes", lambda plan: (256,))
    result = beyond.arrange(list(beyond.run(jax.random.key(11), Plan(20))))[name]["256"]
    sobol, adaptive = EXPECTED[name]
    assert result["sobol"]["tuned"]["excess_median"] <= 2 * sobol
    assert result["adaptive"]["tuned"]["excess_median"] <= max(3 * adaptive, 1e-9)
    assert result["iid"]["tuned"]["ratio_to_paper"] <= 1 / 1.6
    for points in ("iid", "sobol"):
        assert result[points]["tuned"]["ratio_to_v"] <= 1.1
    for summary in (result[points]["tuned"] for points in ("iid", "sobol", "adaptive")):
        told = summary["tails_median"] > UNSEEN_TAILS  # that the error is uncertain
        if summary["excess_median"] > 1e-10 and not told:
            assert 1 / 3 <= summary["certificate_ratio"] <= 3


# Dimensions


@pytest.mark.parametrize("steps", [5, 10, 300])
def test_prices_have_one_law_whatever_the_number_of_increments(steps):
    """Their logarithms are normal, with variance volatility² t and drift less half of it."""
    model = dimensions.price(steps)
    theta = jnp.array(model.theta)
    times = np.arange(1, 6) / 5

    def follow(u):
        return jnp.log(model.rows(theta, u[None]))[0]

    still, linear = follow(jnp.zeros(steps)), jax.jacfwd(follow)(jnp.zeros(steps))
    np.testing.assert_allclose(still, (0.05 - 0.5**2 / 2) * times, rtol=1e-12)
    covariance = 0.5**2 * np.minimum(times[:, None], times[None])
    np.testing.assert_allclose(linear @ linear.T, covariance, rtol=1e-12)


def test_errors_against_the_dimension_go_on_where_they_stopped():
    experiment, plan = EXPERIMENTS["dimensions"], Plan(1, quick=True)
    assert experiment.steps(plan) == 15
    first = next(experiment.run(KEY, plan))
    assert first == {"series": "independent, equal weights", "x": 10, "excess": ANY, "pilot": 0}
    again = next(experiment.run(KEY, plan, 1))
    assert 0 < again["excess"] < first["excess"]
    (cell,) = experiment.arrange([first, first])
    assert cell["median"] == first["excess"]
