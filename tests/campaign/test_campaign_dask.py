"""Campaigns on a real Dask cluster: the same bytes, and a worker killed in the middle."""

import os
import signal
import threading
import time

import numpy as np
import pytest
from distributed import Client, LocalCluster

import campaign_models as models
from owlfi import Normal, Simulator, SquaredExponential, equal_weights
from owlfi.campaign import Campaign

POINTS = np.linspace(-2, 2, 20)


def local_cluster(**options):
    return LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, **options)


@pytest.fixture(scope="module")
def cluster():
    with local_cluster(processes=True) as cluster:
        yield cluster


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.slow)])
def any_cluster(request):
    with local_cluster(processes=request.param) as cluster:
        yield cluster


def campaign_of(folder, function, thetas):
    simulator = Simulator(function, Normal(), ["a"], on_host=True)
    q = equal_weights(SquaredExponential(1.0), Normal(), POINTS)
    return Campaign.create(folder / "runs.sqlite", simulator, thetas, q)


def test_dask_gives_the_same_bytes_by_client_and_by_address(any_cluster, tmp_path):
    folders = [tmp_path / name for name in ("client", "address", "here")]
    results = []
    with Client(any_cluster) as client:
        for folder, executor in zip(
            folders, (client, any_cluster.scheduler_address, "here"), strict=True
        ):
            folder.mkdir()
            campaign = campaign_of(folder, models.in_numpy, [1.0, 2.0, 3.0])
            campaign.run(executor=executor)
            results.append(np.asarray(campaign.results().y).tobytes())
    assert len(set(results)) == 1


@pytest.mark.slow
def test_worker_killed_in_the_middle_loses_nothing(cluster, tmp_path):
    campaign = campaign_of(tmp_path, models.slow, [1.0, 2.0, 3.0])
    with Client(cluster) as client:
        pids = list(client.run(os.getpid).values())
        killer = threading.Timer(1.0, os.kill, (pids[0], signal.SIGKILL))
        killer.start()
        status = campaign.run(executor=client.get_executor())
        killer.join()
    assert (status.done, status.failed) == (60, 0)
    expected = np.array([1.0, 2.0, 3.0])[:, None, None] * POINTS[:, None]
    assert np.asarray(campaign.results().y).tobytes() == expected.tobytes()


@pytest.mark.slow
def test_workers_without_the_simulator_stop_the_campaign_at_once(cluster, tmp_path, monkeypatch):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "only_here.py").write_text("def model(theta, u):\n    return u\n")
    monkeypatch.syspath_prepend(folder)
    import only_here

    campaign = campaign_of(tmp_path, only_here.model, [1.0])
    start = time.perf_counter()
    with (
        Client(cluster) as client,
        pytest.raises(ValueError, match="install it where the workers are"),
    ):
        campaign.run(executor=client)
    assert time.perf_counter() - start < 30
    assert campaign.status().waiting == 20
