"""Campaigns on a real Dask cluster: the same bytes, and a worker killed in the middle."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError
from functools import partial
from types import SimpleNamespace
from unittest.mock import Mock

import jax
import numpy as np
import pytest
from distributed import Client, LocalCluster
from numpy.testing import assert_array_equal

import campaign_models as models
from ordinary_simulators import SIMULATORS, branching
from owlfi import Normal, Simulator, SquaredExponential, equal_weights, sobol
from owlfi.campaign import Campaign
from owlfi.campaign import cluster as cluster_module
from owlfi.weights.quadrature import unweighted

POINTS = np.linspace(-2, 2, 20)


def local_cluster(**options):
    return LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", **options)


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


def test_simulators_that_draw_for_themselves_run_on_dask(tmp_path):
    prior = SIMULATORS[branching]
    simulator = Simulator.from_random(branching, prior.names, prior=prior)
    q = unweighted(sobol(jax.random.key(0), 3, simulator.measure))
    campaign = Campaign.create(tmp_path / "runs.sqlite", simulator, [[0.9], [1.5]], q)
    with local_cluster(processes=False) as cluster, Client(cluster) as client:
        campaign.run(executor=client)
    assert_array_equal(campaign.results().y[1], simulator([1.5], q.points))


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


def test_small_runs_go_in_batches(tmp_path):
    with local_cluster(processes=False) as cluster, Client(cluster) as client:
        tasks = []
        submit = client.submit
        client.submit = lambda *args, **options: tasks.append(args) or submit(*args, **options)
        campaign = campaign_of(tmp_path, models.scaled, np.arange(1.0, 101.0))
        assert campaign.run(executor=client).done == 2000
    assert len(tasks) < 1000
    assert max(len(rows) for _, rows in tasks) > 5
    expected = np.arange(1.0, 101.0)[:, None, None] * POINTS[:, None]
    assert np.asarray(campaign.results().y).tobytes() == expected.tobytes()


def test_batches_of_runs_that_take_longer_than_those_before_are_cut_short(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_module.Cluster, "_rows_a_batch", lambda self: 8)
    monkeypatch.setattr(cluster_module, "_BATCH_SECONDS", 0.0)
    with local_cluster(processes=False) as cluster, Client(cluster) as client:
        threads = []
        submit = client.submit

        def submit_and_tell(*args, **options):
            threads.append(threading.current_thread())
            return submit(*args, **options)

        client.submit = submit_and_tell
        campaign = campaign_of(tmp_path, models.scaled, [1.0, 2.0])
        assert campaign.run(executor=client, check=False).done == 40
    assert len(threads) == 40  # one more for each run but the first of a batch
    assert {*threads} == {threading.current_thread()}  # in Dask's, an error would be lost
    expected = np.array([1.0, 2.0])[:, None, None] * POINTS[:, None]
    assert np.asarray(campaign.results().y).tobytes() == expected.tobytes()


class Closing:
    """A client that takes a task and loses it, and then none."""

    scheduler, status = SimpleNamespace(address="tcp://127.0.0.1:9"), "closing"

    def __init__(self):
        self.tasks = []

    def submit(self, *_, **__):
        if self.tasks:
            raise RuntimeError("closed")
        self.tasks.append(Mock())
        return self.tasks[0]


def test_rows_that_a_closing_client_took_are_given_back(monkeypatch):
    monkeypatch.setattr(cluster_module, "connect", lambda address: Mock(status="running"))
    engine = cluster_module.Cluster(Closing(), workers=2)
    lost, sent = (engine.submit("recipe", b"", b"") for _ in range(2))
    engine.flush()
    assert isinstance(
        lost.exception(timeout=0), CancelledError
    )  # so that the driver sends it again
    assert not sent.done()


@pytest.mark.parametrize(
    "address", ["tcp://127.0.0.1:9", "carrier://pigeon:1", "tls://127.0.0.1:9"]
)
def test_addresses_where_nobody_answers_are_named(tmp_path, monkeypatch, address):
    monkeypatch.setattr(cluster_module, "_ANSWER", 0.5)
    with pytest.raises(ValueError, match=f"no Dask scheduler answers at '{address}'"):
        campaign_of(tmp_path, models.scaled, [1.0]).run(executor=address)


def test_clients_that_find_nobody_are_closed_at_once(monkeypatch):
    """The garbage collector may close one while another is made, which waits for ever."""
    made = []
    monkeypatch.setattr(cluster_module, "_ANSWER", 0.5)
    make = Client.__new__
    remember = lambda kind, *_, **__: made.append(make(kind)) or made[-1]  # noqa: E731
    monkeypatch.setattr(Client, "__new__", remember)
    with pytest.raises(ValueError, match="no Dask scheduler answers"):
        cluster_module.connect("tcp://127.0.0.1:9")
    assert [client.status for client in made] == ["closed"]


def start_scheduler(folder, port):
    """A scheduler of its own with a worker in another process."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard"]
    address = f"tcp://127.0.0.1:{port}"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    run = partial(subprocess.Popen, env=environment, cwd=folder, **quiet)
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "2"]
    return run([*command, "--host", "127.0.0.1", "--port", str(port)]), run(
        [*worker, "--no-dashboard", "--no-nanny", "--death-timeout", "60"]
    )


@pytest.mark.slow
def test_scheduler_that_dies_and_comes_back_loses_nothing(tmp_path):
    port = free_port()
    campaign = campaign_of(tmp_path, models.slow, [1.0, 2.0, 3.0])
    processes = [*start_scheduler(tmp_path, port)]
    restarted = threading.Event()

    def restart(progress):
        if progress.done >= 10 and not restarted.is_set():
            restarted.set()
            for process in processes:
                process.kill()
                process.wait()
            processes[:] = start_scheduler(tmp_path, port)

    time.sleep(5)
    try:
        status = campaign.run(executor=f"tcp://127.0.0.1:{port}", report=restart, workers=4)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert restarted.is_set()
    assert (status.done, status.failed) == (60, 0)
    expected = np.array([1.0, 2.0, 3.0])[:, None, None] * POINTS[:, None]
    assert np.asarray(campaign.results().y).tobytes() == expected.tobytes()


@pytest.mark.slow
def test_scheduler_that_stays_away_is_one_message(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_module, "_PATIENCE", 1.0)
    monkeypatch.setattr(cluster_module, "_ANSWER", 3.0)
    port = free_port()
    campaign = campaign_of(tmp_path, models.slow, [1.0, 2.0, 3.0])
    processes = start_scheduler(tmp_path, port)

    def stop(progress):
        for process in processes if progress.done else ():
            process.kill()
            process.wait()

    time.sleep(5)
    with pytest.raises(ConnectionError, match="what had ended is kept: start it"):
        campaign.run(executor=f"tcp://127.0.0.1:{port}", report=stop, workers=4)
    assert 0 < campaign.status().done < 60
    assert campaign.run(executor="here").done == 60


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


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
