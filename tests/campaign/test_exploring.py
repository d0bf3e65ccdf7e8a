"""Campaigns that grow: proposals, points, budgets, and kills between them."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import campaign_models as models
from owlfi import (
    Normal,
    Prior,
    Problem,
    Simulator,
    SquaredExponential,
    Uniform,
    accept,
    equal_weights,
    optimal_weights,
    simulate,
)
from owlfi.campaign import Campaign
from owlfi.models import g_and_k

KEY = jax.random.key(3)
PRIOR = Prior(a=Uniform(0, 10))
POINTS = np.array([-1.5, 0.0, 1.0])[:, None]


def simulator(function=models.logged, prior=PRIOR):
    return Simulator(function, Normal(), ["a"], prior=prior, on_host=True)


def weights(points=POINTS):
    return optimal_weights(SquaredExponential(1.0), Normal(), points)


def problem():
    return Problem(simulator(), 3.0 * np.linspace(-2, 2, 40)[:, None])


def pilot(path, monkeypatch, thetas=8, quadrature=None):
    monkeypatch.setenv("OWLFI_TEST_LOG", str(path / "log"))
    quadrature = weights() if quadrature is None else quadrature
    return Campaign.create(path / "runs.sqlite", simulator(), PRIOR.starts(KEY, thetas), quadrature)


def logged(path):
    log = path / "log"
    return log.read_text().splitlines() if log.exists() else []


def explore(campaign, **options):
    options = {"executor": "here", "costs": False, "batch": 5} | options
    return campaign.explore(KEY, problem(), **options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A campaign that went through three proposals, and its folder."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        campaign = pilot(folder, patch)
        explore(campaign, budget=61)
    return campaign, folder


@pytest.mark.parametrize("budget", [1, 20, 25])
def test_budget_is_never_exceeded_and_counts_every_call(tmp_path, monkeypatch, budget):
    campaign = pilot(tmp_path, monkeypatch)
    status = explore(campaign, budget=budget)
    assert status.calls == len(logged(tmp_path)) <= budget
    assert status.calls > budget - 3  # less than another theta is left


def test_budget_is_spent_on_proposals_and_then_on_nothing(whole):
    campaign, folder = whole
    spent = campaign.status().calls
    assert 61 - 3 < spent == len(logged(folder)) <= 61
    assert len(campaign.design.thetas) == 20
    again = explore(Campaign.open(campaign.path), budget=61)
    assert again.calls == len(logged(folder)) == spent


@pytest.mark.slow
def test_exploring_finds_the_posterior_with_weights(tmp_path, monkeypatch):
    campaign = pilot(tmp_path, monkeypatch)
    explore(campaign, budget=100)
    near = np.abs(campaign.design.thetas[8:, 0] - 3) < 0.75
    assert near.mean() > 0.5  # of the prior 0.15, 4 standard errors above are 0.43
    runs = campaign.results()
    assert runs.importance.shape == (len(runs.thetas),)
    posterior = accept(problem(), runs)
    dense = simulate(simulator(models.scaled), PRIOR.starts(KEY, 1000), weights())
    exact = accept(problem(), dense)
    assert_allclose(posterior.mean, exact.mean, atol=4 * exact.sd[0] / np.sqrt(15))
    leading = campaign.results(partial=True)
    assert_array_equal(leading.importance, runs.importance)


def test_same_key_gives_the_same_design_after_interruptions(whole, tmp_path, monkeypatch):
    broken = pilot(tmp_path, monkeypatch)
    for reports in (2, 12, 14, 9):  # some end among the runs of a proposal
        left = iter(range(reports))

        def interrupt(progress, left=left):
            if next(left, None) is None:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            explore(Campaign.open(broken.path), budget=61, report=interrupt)
    broken = Campaign.open(broken.path)
    assert 8 < len(broken.design.thetas) < 20
    explore(broken, budget=61)
    assert_array_equal(broken.design.thetas, whole[0].design.thetas)
    lines = [line.rsplit(" ", 1)[0] for line in logged(tmp_path)]
    assert len(lines) - len(set(lines)) == 1  # the check


def test_proposed_thetas_are_kept_before_they_are_run(tmp_path, monkeypatch):
    campaign = pilot(tmp_path, monkeypatch)
    campaign.run(executor="here")
    thetas = campaign.propose(KEY, problem(), 4, costs=False)
    opened = Campaign.open(campaign.path)  # as after a kill
    assert opened.status().waiting == 12
    assert_array_equal(opened.design.thetas[8:], thetas)
    assert opened.run(executor="here").waiting == 0
    assert len(logged(tmp_path)) == 8 * 3 + 1 + 12
    partial = opened.results()
    assert_allclose(partial.importance.mean(), 1, atol=0.8)


_CHILD = """
import jax, sys
sys.path[:0] = {tests!r}
import test_exploring as here
from owlfi.campaign import Campaign
here.explore(Campaign.open({store!r}), budget=120)
"""


@pytest.mark.slow
def test_a_killed_exploration_goes_on_to_the_same_design(tmp_path, monkeypatch):
    for folder in ("whole", "killed"):
        (tmp_path / folder).mkdir()
    whole = pilot(tmp_path / "whole", monkeypatch)
    explore(whole, budget=120)
    killed = pilot(tmp_path / "killed", monkeypatch)
    tests = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    code = _CHILD.format(tests=tests, store=str(killed.path))
    for grown in (9, 14, 19):  # killed as soon as a proposal is in the store, before its runs
        child = subprocess.Popen([sys.executable, "-c", code], env=os.environ)
        while len(Campaign.open(killed.path).design.thetas) < grown and child.poll() is None:
            time.sleep(0.002)
        child.send_signal(signal.SIGKILL)
        child.wait()
    explore(Campaign.open(killed.path), budget=120)
    again = Campaign.open(killed.path)
    assert_array_equal(again.design.thetas, whole.design.thetas)
    assert_array_equal(again.results().y, whole.results().y)
    lines = [line.rsplit(" ", 1)[0] for line in logged(tmp_path / "killed")]
    assert len(lines) - len(set(lines)) <= 1 + 3 * 10  # the check, and what 50 ms may lose


def test_seconds_end_it_cleanly(tmp_path, monkeypatch):
    campaign = pilot(tmp_path, monkeypatch)
    assert campaign.run(executor="here", seconds=0).done == 0
    assert explore(campaign, budget=100, seconds=0).calls == 0
    began = time.monotonic()
    status = explore(campaign, budget=10_000, seconds=1.0, batch=2)
    assert time.monotonic() - began < 20  # a proposal is being made when they end
    assert status.calls == len(logged(tmp_path))


def test_retries_count_against_the_budget(tmp_path, monkeypatch):
    monkeypatch.setenv("OWLFI_TEST_LOG", str(tmp_path))
    quadrature = equal_weights(SquaredExponential(1.0), Normal(), [1.0, 2.0])
    campaign = Campaign.create(
        tmp_path / "runs.sqlite", simulator(models.dies_once), [[1.0]], quadrature
    )
    status = campaign.run(workers=1, budget=3, check=False)
    assert (status.calls, status.done) == (3, 1)
    assert campaign.run(workers=1, check=False).calls == 4


def test_points_are_added_and_nothing_is_run_again(tmp_path, monkeypatch):
    campaign = pilot(tmp_path, monkeypatch)
    campaign.run(executor="here", check=False)
    before = campaign.results()
    more = np.concatenate([[[0.5]], POINTS, [[2.0]]])
    campaign.extend(quadrature=weights(more))
    assert campaign.status().waiting == 8 * 2
    campaign.run(executor="here", check=False)
    assert len(logged(tmp_path)) == 8 * 5
    runs = campaign.results()
    assert_array_equal(runs.y[:, 1:4], before.y)
    assert runs.importance is None or np.allclose(runs.importance, 1)
    with campaign.reading() as store:
        places = [row[0] for row in store.connection.execute("SELECT place FROM runs")]
    assert sorted(places) == list(range(40))


def test_thetas_are_added_with_points_of_their_own(tmp_path, monkeypatch):
    u = jax.random.normal(KEY, (8, 3, 1))
    campaign = pilot(tmp_path, monkeypatch, quadrature=weights(u))
    with pytest.raises(ValueError, match=r"points of its own; give quadrature= .*\(t, 3, s\)"):
        campaign.extend([[1.0]])
    campaign.extend([[1.0], [2.0]], weights(u[:2] + 1))
    assert campaign.run(executor="here").total == 30
    assert_allclose(campaign.results().y[9], 2 * (u[1] + 1))
    with pytest.raises(ValueError, match=r"must have points \(t, 3, 1\), got \(1, 2, 1\)"):
        campaign.extend([[3.0]], weights(u[:1, :2]))


def test_mistakes_are_named(tmp_path, monkeypatch):
    campaign = pilot(tmp_path, monkeypatch)
    with pytest.raises(ValueError, match="thetas and quadrature are both left out"):
        campaign.extend()
    with pytest.raises(ValueError, match="leaves out points of the design, so that 8 of its runs"):
        campaign.extend(quadrature=weights(POINTS[1:]))
    with pytest.raises(ValueError, match=r"thetas must have shape"):
        campaign.extend([[1.0, 2.0]])
    with pytest.raises(ValueError, match="has no runs to learn from yet"):
        campaign.propose(KEY, problem(), 5)
    with pytest.raises(ValueError, match="count must be a whole number of at least 1, got 0"):
        campaign.propose(KEY, problem(), 0)
    for name in ("budget", "batch"):
        with pytest.raises(ValueError, match=f"{name} must be a whole number of at least 1"):
            explore(campaign, **({"budget": 9} | {name: 0}))
    with pytest.raises(ValueError, match="seconds must be 0 or more, got -1"):
        campaign.run(executor="here", seconds=-1)
    other = Problem(simulator(prior=Prior(a=Uniform(0, 5))), problem().observed)
    with pytest.raises(ValueError, match="must be that of the campaign's simulator"):
        campaign.propose(KEY, other, 5)
    stale = Campaign.open(campaign.path)
    assert len(stale.design.thetas) == 8
    campaign.extend([[1.0]])
    with pytest.raises(ValueError, match="has been extended meanwhile; open it again"):
        stale.extend([[2.0]])
    assert logged(tmp_path) == []


def test_simulators_with_arrays_of_their_own_run_in_campaigns(tmp_path):
    model = g_and_k().fix(theta_3=0.1, theta_4=0.1)
    campaign = Campaign.create(tmp_path / "runs.sqlite", model, [[3.0, 1.0]], weights())
    assert campaign.run(executor="here").done == 3
    assert_allclose(campaign.results().y[0], model([3.0, 1.0], jnp.asarray(POINTS)), rtol=1e-12)


@pytest.mark.slow
def test_example_of_the_documentation_runs(tmp_path):
    text = (Path(__file__).parents[2] / "docs" / "campaigns.md").read_text()
    example = re.search(r"```python\n((?:(?!```).)*?explore.*?)```", text, re.DOTALL)[1]
    (tmp_path / "script.py").write_text(example)
    ran = subprocess.run(
        [sys.executable, "script.py"], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert "direction" in ran.stdout
    assert 970 < Campaign.open(tmp_path / "next.sqlite").status().calls <= 1000
