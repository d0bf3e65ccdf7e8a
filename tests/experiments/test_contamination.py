"""Posteriors from data with stray rows."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

from owlfi.experiments import EXPERIMENTS, contamination
from owlfi.experiments.contamination import BUDGET, METHODS, SETTINGS, SHARES, Setting, observe
from owlfi.experiments.experiment import Plan
from owlfi.experiments.ou_and_ricker import ricker, summarise_counts
from owlfi.experiments.trust.case import Case
from owlfi.experiments.trust.smooth import small_scale
from owlfi.points.sequences import sobol
from owlfi.problem.problem import Problem
from owlfi.problem.rules import VStatistic

KEY = jax.random.key(2)
TARGETS = {"Ornstein-Uhlenbeck": (0.02, 0.02, 0.02), "Ricker": (0.15, 0.15, 0.2)}


@pytest.mark.parametrize("model", SETTINGS)
def test_stray_rows_come_first_and_the_others_stay(model):
    clean, stray = (np.asarray(observe(KEY, SETTINGS[model], share)) for share in (0.0, 0.2))
    assert clean.shape == stray.shape
    assert len(clean) == 100
    assert (clean[:80] == stray[20:]).all()
    assert stray[:20].max() > 3 * clean.max()


def test_process_of_stray_rows_has_ten_times_the_noise():
    setting = SETTINGS["Ornstein-Uhlenbeck"]
    sd = [float(case.make().measure.sd[0]) for case in (setting.case, setting.stray)]
    assert_allclose(sd, [0.1, 1.0])


def test_population_follows_its_map():
    """Without noise log N is 4 - 1 = 3, then 3 + 4 - e³; counts at their medians."""
    u = np.concatenate([np.zeros((1, 100)), np.full((1, 100), 0.5)], 1)
    y = np.asarray(ricker()([4.0, 10.0], u))[0]
    assert_allclose(y[0], 10 * np.exp(3), atol=1)
    assert y[1] == 0


def test_summaries_of_a_row():
    row = np.zeros(100)
    row[:50:2] = 4.0
    found = summarise_counts(np.stack([row, np.zeros(100)]))
    roots = np.sqrt(row) - np.sqrt(row).mean()
    lags = [(roots[lag:] @ roots[:-lag]) / (roots @ roots) for lag in (1, 2)]
    assert_allclose(found[0], [0.0, 0.75, np.log(4), np.log(row.std()), *lags])
    assert_allclose(found[1], [np.log(0.01), 1.0, 0.0, np.log(0.1), 0.0, 0.0])


def test_summaries_are_taken_of_observations_and_simulations():
    model = ricker()
    u = model.measure.sample(KEY, 4)
    y = model.rows(model.theta, u)
    problem = Problem(model, y, summaries=summarise_counts)
    assert_allclose(problem.observed, problem.simulator.rows(model.theta, u))
    assert problem.observed.shape == (4, 6)


def small_setting():
    published = dict.fromkeys(SHARES, (1.0, 2.0, 3.0, 4.0, 5.0))
    case = Case(small_scale, (0.2,), 100, VStatistic(16, sobol))
    return Setting(case, case._replace(theta=(0.9,)), published)


def test_errors_of_draws_beside_the_published(monkeypatch, tmp_path):
    monkeypatch.setattr(contamination, "SETTINGS", {"small": small_setting()})
    experiment = EXPERIMENTS["contamination"]
    plan = experiment.plan(repeats=2, quick=True)
    records = list(experiment.run(KEY, plan))
    assert len(records) == experiment.steps(plan) == 6
    cells = experiment.arrange(records)["small"]
    assert list(cells) == ["0%", "10%", "20%"]
    for cell in cells.values():
        assert 0 < cell["rmse"] < 0.2
        assert cell["best_published"] == 1.0
        assert 0 < cell["most_calls"] < BUDGET
    table = experiment.table(records)
    assert len(table.rows) == 3
    assert len(table.rows[0]) == len(table.headings) == len(METHODS) + 4
    assert experiment.write(tmp_path, 2, plan, records)[1].stat().st_size > 5000
    (last,) = experiment.run(KEY, plan, 5)
    assert last["rmse"] == records[5]["rmse"]


def test_fits_without_a_draw_are_the_farthest():
    good, bad = {"rmse": 0.5, "calls": 10, "seconds": 1.0}, {"rmse": None, "seconds": 1.0}
    published = (1.0,) * len(METHODS)
    assert contamination._summarise([good, good, bad], published)["rmse"] == 0.5
    assert contamination._summarise([good, bad, bad], published)["rmse"] is None


@pytest.mark.slow
def test_stray_rows_move_the_draws_hardly():
    results = contamination.arrange(list(contamination.run(KEY, Plan(3))))
    for model, targets in TARGETS.items():
        for cell, target in zip(results[model].values(), targets, strict=True):
            assert cell["failed"] == 0
            assert cell["rmse"] <= target
            assert cell["most_calls"] <= BUDGET
