"""Killing the driver at any moment loses at most what ended just before, and repeats nothing."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import campaign_models as models
from owlfi import Normal, Simulator, SquaredExponential, equal_weights
from owlfi.campaign import Campaign
from owlfi.campaign.store import as_bytes, digest

SLACK = 0.25  # seconds; commits come within 0.05 on a machine that is not busy
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}


def campaign_of(folder, runs):
    simulator = Simulator(models.logged, Normal(), ["a"], on_host=True)
    points = equal_weights(SquaredExponential(1.0), Normal(), np.linspace(-2, 2, 20))
    thetas = np.arange(1.0, 1 + runs // 20)
    return Campaign.create(folder / "runs.sqlite", simulator, thetas, points)


def logged_runs(log):
    """The digest and the moment of the end of every run, in the order of their ends."""
    rows = [map(float, line.split()) for line in log.read_text().splitlines()]
    return [(digest(as_bytes([a]), as_bytes([u])), end) for a, u, end in rows]


def assert_nothing_lost_or_repeated(log, kills):
    """Only what ended within a moment of a kill may have been made twice."""
    ends = {}
    for name, end in logged_runs(log):
        ends.setdefault(name, []).append(end)
    for moments in ends.values():
        for end in moments[:-1]:
            assert min(abs(kill - end) for kill in kills) < SLACK


@pytest.mark.parametrize("kills", [5, pytest.param(24, marks=pytest.mark.slow)])
def test_killing_the_driver_at_random_moments(tmp_path, kills):
    log = tmp_path / "log"
    campaign = campaign_of(tmp_path, 20_000)
    script = Path(__file__).with_name("kill_campaign.py")
    ran = subprocess.run(
        [sys.executable, script, campaign.path, log, str(kills), "1"],
        capture_output=True,
        text=True,
        check=True,
        env=ENVIRONMENT,
    )
    moments = json.loads(ran.stdout)
    assert len([moment for moment in moments if moment]) == kills
    status = campaign.status()
    assert status.failed == status.running == 0
    assert status.done > 100
    runs = logged_runs(log)
    assert status.done <= len(set(dict(runs)))
    assert_nothing_lost_or_repeated(log, moments)
    committed = campaign.results(partial=True)
    expected = np.asarray(committed.thetas)[:, None] * np.asarray(committed.quadrature.points)
    assert np.asarray(committed.y).tobytes() == expected.tobytes()


@pytest.mark.slow
def test_killing_a_driver_with_processes_and_then_their_orphans_end(tmp_path):
    """The real pool: 20 drivers killed, results as if nothing had happened."""
    campaign = campaign_of(tmp_path, 2_000)
    log = tmp_path / "log"
    environment = ENVIRONMENT | {"OWLFI_TEST_LOG": str(log)}
    code = (
        "import sys; from owlfi.campaign import Campaign\n"
        "Campaign.open(sys.argv[1]).run(workers=2, check=False)"
    )
    command = [sys.executable, "-c", code, str(campaign.path)]
    draw, kills = random.Random(2), []
    for _ in range(20):
        driver = subprocess.Popen(command, env=environment)
        before = log.stat().st_size if log.exists() else 0
        while driver.poll() is None and (not log.exists() or log.stat().st_size == before):
            time.sleep(0.01)
        time.sleep(draw.uniform(0, 0.3))
        kills.append(time.time())
        driver.send_signal(signal.SIGKILL)
        driver.wait()
    time.sleep(1.0)  # orphans end when they see that their driver is gone
    kills.append(time.time())
    subprocess.run(command, env=environment, check=True)
    assert campaign.status().done == 2_000
    assert_nothing_lost_or_repeated(log, kills)
    again = Counter(name for name, _ in logged_runs(log))
    assert len(again) == 2_000
    y = np.asarray(campaign.results().y)
    runs = campaign.results()
    expected = np.asarray(runs.thetas)[:, None] * np.asarray(runs.quadrature.points)
    assert y.tobytes() == expected.tobytes()


def test_importing_owlfi_does_not_start_jax():
    """Processes that fork and programs that only read a store would pay for it."""
    code = (
        "import sys, owlfi; from jax._src import xla_bridge; sys.exit(bool(xla_bridge._backends))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
