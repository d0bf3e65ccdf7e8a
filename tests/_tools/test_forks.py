"""Forked processes are refused in words where JAX would hang."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import jax
import numpy as np
import pytest

import campaign_models as models
from owlfi import (
    Normal,
    Simulator,
    SquaredExponential,
    equal_weights,
    sobol,
    squared_mmd,
)
from owlfi.campaign import Campaign

KERNEL = SquaredExponential(1.0)
FORK = multiprocessing.get_context("fork")
SAMPLE, KEY = np.ones((3, 1)), jax.random.key(0)
pytestmark = pytest.mark.filterwarnings("ignore:os.fork")


def store_path(folder):
    return folder / "runs.sqlite"


CALLS = {
    "kernels": lambda folder: KERNEL.gram(SAMPLE, SAMPLE),
    "arrays": lambda folder: squared_mmd(KERNEL, SAMPLE, SAMPLE),
    "keys": lambda folder: sobol(KEY, 4, Normal()),
    "campaigns": lambda folder: Campaign.open(store_path(folder)).run(executor="here"),
}


def report_error(call, folder, pipe):
    try:
        call(folder)
    except RuntimeError as error:
        pipe.send(str(error))


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_calls_in_a_forked_process_are_refused(tmp_path, call):
    campaign_in_jax(tmp_path)
    call(tmp_path)  # what is compiled would hang, too
    ours, theirs = FORK.Pipe()
    child = FORK.Process(target=report_error, args=(call, tmp_path, theirs))
    child.start()
    answered = ours.poll(20)
    child.kill()
    child.join()
    assert answered
    assert 'multiprocessing.get_context("spawn")' in ours.recv()


def campaign_in_jax(folder):
    quadrature = equal_weights(KERNEL, Normal(), [0.5])
    simulator = Simulator(models.scaled, Normal(), ["a"])
    return Campaign.create(store_path(folder), simulator, [1.0], quadrature)


def test_executors_that_fork_are_refused_by_name(tmp_path):
    campaign = campaign_in_jax(tmp_path)
    with (
        ProcessPoolExecutor(1, mp_context=FORK) as executor,
        pytest.raises(ValueError, match=r"executor is a ProcessPoolExecutor that forks.*spawn"),
    ):
        campaign.run(executor=executor)


@pytest.mark.slow
def test_executors_that_spawn_run_jax(tmp_path):
    campaign = campaign_in_jax(tmp_path)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        assert campaign.run(executor=executor).done == 1
