"""Campaigns: made once, kept, resumed; the same bytes however they are run."""

import multiprocessing
import os
import subprocess
import sys
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
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
    Product,
    Simulator,
    SquaredExponential,
    Uniform,
    VStatistic,
    equal_weights,
    minimum_distance,
    optimal_weights,
    simulate,
)
from owlfi.campaign import Campaign, NotRepeatableError, TooManyFailuresError
from owlfi.campaign.database import network_file_system
from owlfi.campaign.store import Store
from owlfi.models.wind_farm import stored_runs
from strictness import unchecked

C = SquaredExponential(1.0)
PLANE = Normal(dim=2)
POINTS = np.array([[0.5, -1.0], [1.5, 2.0], [0.0, 0.25], [-1.0, 1.0]])
THETAS = np.linspace(0.5, 2.0, 6)[:, None]


def numpy_simulator():
    return Simulator(models.in_numpy, PLANE, ["a"], on_host=True)


def jax_simulator():
    return Simulator(models.in_jax, PLANE, ["a"])


def on_line(function, **options):
    return Simulator(function, Normal(), ["a"], on_host=True, **options)


def line(*points):
    return equal_weights(C, Normal(), list(points))


def planned(path, simulator=None, thetas=THETAS, quadrature=None):
    quadrature = optimal_weights(C, PLANE, POINTS) if quadrature is None else quadrature
    return Campaign.create(path / "runs.sqlite", simulator or numpy_simulator(), thetas, quadrature)


# The same results, however they are run


@pytest.fixture(
    scope="module", params=[pytest.param(numpy_simulator, marks=pytest.mark.slow), jax_simulator]
)
def by_processes(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("processes")
    simulator = request.param()
    campaigns = []
    for workers in (1, 2):
        (folder / str(workers)).mkdir()
        campaign = planned(folder / str(workers), simulator)
        campaign.run(workers=workers)
        campaigns.append(campaign.results())
    return simulator, *campaigns


def test_one_and_two_workers_threads_and_this_process_give_the_same_bytes(by_processes, tmp_path):
    simulator, one, two = by_processes
    expected = np.asarray(one.y).tobytes()
    assert np.asarray(two.y).tobytes() == expected
    (tmp_path / "threads").mkdir()
    here, threads = planned(tmp_path, simulator), planned(tmp_path / "threads", simulator)
    here.run(executor="here")
    with ThreadPoolExecutor(3) as executor:
        threads.run(executor=executor)
    assert np.asarray(here.results().y).tobytes() == expected
    assert np.asarray(threads.results().y).tobytes() == expected


def test_results_are_the_simulations_of_the_design(by_processes):
    simulator, runs, _ = by_processes
    direct = simulate(simulator, THETAS, runs.quadrature, check=False)
    assert_allclose(runs.y, direct.y, rtol=1e-14)
    assert_array_equal(runs.thetas, THETAS)
    assert_array_equal(runs.quadrature.weights, optimal_weights(C, PLANE, POINTS).weights)
    assert runs.calls == direct.calls


def test_each_theta_may_have_points_of_its_own(tmp_path):
    designs = np.stack([POINTS, POINTS + 1])
    campaign = planned(tmp_path, thetas=[1.0, 2.0], quadrature=equal_weights(C, PLANE, designs))
    campaign.run(executor="here")
    expected = [models.in_numpy([a], u) for a, u in zip([1.0, 2.0], designs, strict=True)]
    assert_allclose(campaign.results().y, expected, rtol=1e-14)


def test_simulator_may_come_as_an_import_path(tmp_path):
    path = "campaign_models:made_by_a_function"
    campaign = planned(tmp_path, path, [1.0, 3.0], line(0.5, -0.5))
    campaign.run(executor="here")
    assert_array_equal(campaign.results().y.ravel(), [1.0, -1.0, 3.0, -3.0])
    assert Campaign.open(campaign.path).original.parameters == ("scale",)


def test_other_measures_fixed_parameters_and_scipy_survive_the_store(tmp_path):
    import scipy.stats

    noise = Product(Normal(), scipy.stats.gumbel_r(1.0, scale=2.0))
    simulator = Simulator(models.in_numpy, noise, ["a", "b"], on_host=True).fix(b=3.0)
    planned(tmp_path, simulator)
    again = Campaign.open(tmp_path / "runs.sqlite").original
    assert again.parameters == ("a",)
    assert_array_equal(again([1.0], POINTS), simulator([1.0], POINTS))
    v = jnp.array([[0.2, 0.7]])
    assert_array_equal(again.measure.from_uniform(v), noise.from_uniform(v))


# Never twice, never lost


def test_interrupted_campaign_goes_on_where_it_stopped(tmp_path, monkeypatch):
    monkeypatch.setenv("OWLFI_TEST_LOG", str(tmp_path / "log"))
    campaign = planned(tmp_path, on_line(models.logged), [1.0, 2.0, 3.0], line(0.0, 1.0))

    def interrupt(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        campaign.run(executor="here", report=interrupt, check=False)
    ended = campaign.status().done
    assert 0 < ended < 6
    assert campaign.run(executor="here", check=False, budget=1).done == ended + 1
    assert Campaign.open(campaign.path).run(executor="here", check=False).done == 6
    assert len((tmp_path / "log").read_text().splitlines()) == 6


def test_equal_pairs_in_a_design_are_run_once(tmp_path, monkeypatch):
    monkeypatch.setenv("OWLFI_TEST_LOG", str(tmp_path / "log"))
    campaign = planned(tmp_path, on_line(models.logged), [1.0, 2.0, 1.0], line(0.0, -0.0, 1.0))
    assert campaign.run(executor="here", check=False).total == 4
    assert len((tmp_path / "log").read_text().splitlines()) == 4
    assert_array_equal(campaign.results().y[0], campaign.results().y[2])


def test_remembered_simulator_runs_each_pair_once(tmp_path, monkeypatch):
    monkeypatch.setenv("OWLFI_TEST_LOG", str(tmp_path / "log"))
    campaign = Campaign.create(tmp_path / "runs.sqlite", on_line(models.logged))
    simulator = campaign.simulator
    assert_array_equal(simulator([2.0], [0.5, 1.5]).ravel(), [1.0, 3.0])
    assert_array_equal(simulator([2.0], [1.5, 2.5, 1.5]).ravel(), [3.0, 5.0, 3.0])
    campaign.plan([2.0, 4.0], line(0.5, 2.5))
    assert campaign.status().done == 2
    campaign.run(executor="here", check=False)
    assert_array_equal(campaign.results().y[..., 0], [[1.0, 5.0], [2.0, 10.0]])
    assert len((tmp_path / "log").read_text().splitlines()) == 5 + 1  # the first is checked
    with pytest.raises(ValueError, match="has a design; make another campaign"):
        campaign.plan([2.0, 4.0], line(0.5, 2.5))


def test_remembered_simulator_serves_problems_and_refuses_gradients(tmp_path):
    campaign = Campaign.create(tmp_path / "runs.sqlite", "owlfi.models:g_and_k")
    problem = Problem(campaign.simulator, [1.0, 2.0, 4.0])
    q = VStatistic(m=3).quadrature(jax.random.key(0), problem)
    y = simulate(problem.simulator, [3.0, 1.0, 0.1, 0.1], q, check=False).y
    assert_allclose(problem.squared_mmd(y, q), problem.squared_mmd(y, q))
    with pytest.raises(ValueError, match="cannot be used inside jit, vmap or grad"):
        jax.grad(lambda theta: campaign.simulator(theta, q.points).sum())(jnp.ones(4))


def test_workers_can_be_kept_for_several_calls(tmp_path):
    campaign = planned(tmp_path)
    with campaign.keep_workers(executor="here"):
        campaign.run()
        y = campaign.simulator([9.0], POINTS)
    assert_allclose(y, models.in_numpy([9.0], POINTS))


def test_second_driver_is_refused_while_status_reads(tmp_path):
    campaign = planned(tmp_path)
    seen = []

    def from_elsewhere(progress):
        code = (
            "import sys; from owlfi.campaign import Campaign\n"
            "campaign = Campaign.open(sys.argv[1]); print(campaign.status())\n"
            "campaign.run(executor='here')"
        )
        if not seen:
            command = [sys.executable, "-c", code, campaign.path]
            environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
            seen.append(subprocess.run(command, capture_output=True, text=True, env=environment))

    campaign.run(executor="here", report=from_elsewhere)
    assert "Status(total=24, done=" in seen[0].stdout
    assert f"is being run by process {os.getpid()} on" in seen[0].stderr
    assert campaign.status().done == 24
    assert campaign.status().driver == ""


def test_results_never_favour_fast_runs(tmp_path):
    campaign = planned(tmp_path)
    runs = campaign.design.distinct()
    late_first = [*runs[8:], *runs[:6]]  # the second theta is not complete
    campaign.run_these(late_first)
    with pytest.raises(ValueError, match=r"2 of 24 runs have not ended.*leading 1 thetas"):
        campaign.results()
    assert_array_equal(campaign.results(partial=True).thetas, THETAS[:1])


def test_changed_source_is_named_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / "changing.py"
    module.write_text("def model(theta, u):\n    return theta[0] * u\n")
    import changing

    campaign = planned(tmp_path, on_line(changing.model), [1.0], line(0.0, 1.0))
    campaign.run(executor="here", budget=1)
    module.write_text("def model(theta, u):\n    return 2 * theta[0] * u\n")
    with pytest.raises(ValueError, match=r"(?s)changing changed:.*\+    return 2 \* theta"):
        campaign.run(executor="here")
    assert campaign.status().done == 1
    assert campaign.run(executor="here", accept_changes=True).done == 2


# Failures

FAILURES = {
    models.RAISES: ("exception", "no solution here"),
    models.NAN: ("not finite", "nan"),
    models.SHAPE: ("wrong shape", "(2, 2, 1)"),
    models.HANGS: ("time-out", "time limit"),
    models.DIES: ("crash", "exit code -9"),
    models.WIDE: ("wrong shape", "2 columns where other runs have 1"),
}


@pytest.fixture(scope="module")
def with_failures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("failures")
    kinds = [models.FINE, *FAILURES]
    campaign = planned(folder, on_line(models.misbehaving), kinds, line(-1.0, 1.0))
    campaign.run(workers=2, time_limit=1.0, retries=0)
    return campaign


def test_every_kind_of_failure_is_recorded_with_its_theta_and_u(with_failures):
    status = with_failures.status()
    assert (status.done, status.failed, status.waiting) == (8, 6, 0)
    assert status.failures == {
        "crash": 1,
        "exception": 1,
        "not finite": 1,
        "time-out": 1,
        "wrong shape": 2,
    }
    lines = with_failures.failures()
    for kind, (state, error) in FAILURES.items():
        start = f"{state} at theta = [{kind}.], u = [1.]: "
        assert start in lines
        assert error in lines.split(start)[1].split(" at theta")[0]


def test_failed_thetas_are_rejected_and_not_tried_again(with_failures):
    assert_array_equal(with_failures.results().thetas, [[models.FINE]])
    before = with_failures.results().calls
    assert with_failures.run(workers=1, retries=0).failed == 6
    assert with_failures.results().calls == before


def test_failures_can_be_left_out_of_the_weights(with_failures):
    with pytest.warns(UserWarning, match="failures that depend on u bias"):
        runs = with_failures.results(on_failure="reweight")
    assert runs.thetas.shape == (7, 1)
    assert_array_equal(runs.quadrature.weights, [[0.5, 0.5]] + [[1.0, 0.0]] * 6)
    with pytest.warns(UserWarning, match="bias"):
        weighted = with_failures.results(on_failure="reweight", base_kernel=C)
    alone = optimal_weights(C, Normal(), [-1.0]).weights
    assert_allclose(weighted.quadrature.weights[1], [alone[0], 0.0])
    assert np.isfinite(runs.y).all()
    with pytest.raises(ValueError, match="on_failure must be one of reject, reweight"):
        with_failures.results(on_failure="ignore")


@pytest.mark.slow
def test_workers_that_die_are_replaced_and_their_runs_made_again(tmp_path, monkeypatch):
    (tmp_path / "seen").mkdir()
    monkeypatch.setenv("OWLFI_TEST_LOG", str(tmp_path / "seen"))
    campaign = planned(tmp_path, on_line(models.dies_once), [2.0], line(-1.0, 1.0, 2.0))
    assert campaign.run(workers=2, check=False).done == 3
    assert_array_equal(campaign.results().y.ravel(), [-2.0, 2.0, 4.0])


def test_workers_and_those_that_replace_them_never_run_the_script(tmp_path):
    """A script without `if __name__ == "__main__"` would else start campaigns for ever."""
    campaign = planned(tmp_path, on_line(models.dies_once), [2.0], line(-1.0, 1.0))
    (tmp_path / "seen").mkdir()
    (tmp_path / "script.py").write_text(
        "from pathlib import Path\n"
        "with Path('ran').open('a') as file:\n    file.write('once ')\n"
        "from owlfi.campaign import Campaign\n"
        "print(Campaign.open('runs.sqlite').run(workers=1, check=False).calls)\n"
    )
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "OWLFI_TEST_LOG": str(tmp_path / "seen"),
    }
    ran = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.stdout == "3\n", ran.stderr
    assert (tmp_path / "ran").read_text() == "once "
    assert campaign.status().done == 2


def test_failed_runs_are_made_again_where_this_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.delenv("OWLFI_TEST_LOG", raising=False)
    campaign = planned(tmp_path, on_line(models.needs_a_log), [2.0], line(-1.0, 1.0, 2.0))
    assert campaign.run(executor="here", check=False).failures == {"exception": 2}
    monkeypatch.setenv("OWLFI_TEST_LOG", str(tmp_path / "log"))
    assert campaign.run(executor="here", check=False).failed == 2
    status = campaign.run(executor="here", check=False, retry_failed=True)
    assert (status.done, status.failed, status.calls) == (3, 0, 5)
    assert_array_equal(campaign.results().y.ravel(), [-2.0, 2.0, 4.0])


def test_remembered_simulator_remembers_failures(tmp_path):
    campaign = Campaign.create(tmp_path / "runs.sqlite", on_line(models.misbehaving))
    theta, u = jnp.array([1.0 * models.RAISES]), jnp.array([[1.0], [-1.0]])
    for _ in range(2):
        with pytest.raises(ValueError, match=r"failed \(exception\) at theta = \[1.\], u = \[1.\]"):
            campaign.simulator(theta, u[:1])
    assert_array_equal(campaign.simulator.rows(theta, u), [[np.nan], [0.0]])
    with pytest.raises(ValueError, match=r"NaN or infinite.*theta = \[1.\], u = \[1.\]"):
        campaign.simulator(theta, u)
    assert "no solution here" in campaign.failures()


def test_too_many_failures_stop_the_campaign_with_a_summary(tmp_path):
    points = np.linspace(0.1, 1, 50)
    campaign = planned(tmp_path, on_line(models.misbehaving), [models.RAISES], line(*points))
    with pytest.raises(TooManyFailuresError, match=r"(?s)11 of 11 runs failed.*no solution here"):
        campaign.run(executor="here")
    assert campaign.status().failed == 11
    with pytest.raises(ValueError, match="have not ended"):
        campaign.results()


def test_random_numbers_of_its_own_are_found_before_many_runs_are_made(tmp_path):
    points = np.linspace(0, 1, 100)
    campaign = planned(tmp_path, on_line(models.slow_and_forgetful), [1.0], line(*points))
    with ThreadPoolExecutor(2) as executor, pytest.raises(NotRepeatableError):
        campaign.run(executor=executor, workers=2)
    assert campaign.status().done <= 5


def test_no_run_begins_after_the_seconds_have_passed(tmp_path):
    points = np.linspace(0, 1, 100)
    campaign = planned(tmp_path, on_line(models.slow), [1.0], line(*points))
    start = time.monotonic()
    with ThreadPoolExecutor(2) as executor:
        status = campaign.run(executor=executor, workers=2, seconds=0.3, check=False)
    assert time.monotonic() - start < 1.5
    assert 2 <= status.done <= 8
    assert status.failed == 0


def test_random_numbers_of_its_own_are_found(tmp_path):
    campaign = planned(tmp_path, on_line(models.forgetful), [1.0], line(0.0, 1.0))
    with pytest.raises(NotRepeatableError, match="take all random numbers from u"):
        campaign.run(executor="here")


def test_random_numbers_of_its_own_are_found_where_methods_choose_the_runs(tmp_path):
    prior = Prior(location=Uniform(0, 10))
    model = Simulator(models.forgetful, Normal(), prior.names, prior=prior, on_host=True)
    problem = Problem(Campaign.create(tmp_path / "runs.sqlite", model).simulator, np.arange(9.0))
    with pytest.raises(NotRepeatableError, match="take all random numbers from u"):
        minimum_distance(jax.random.key(0), problem, VStatistic(8))


# Errors before anything runs


def test_functions_that_workers_cannot_import_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"a lambda has no name .* with def at the top of test_"):
        planned(tmp_path, on_line(lambda theta, u: u), [1.0], line(0.0))

    def inner(theta, u):
        return u

    with pytest.raises(ValueError, match="define it at the top of test_campaign"):
        planned(tmp_path, on_line(inner), [1.0], line(0.0))
    code = (
        "import owlfi\nfrom owlfi.campaign import Campaign\ndef mine(theta, u): return u\n"
        "Campaign.create('x.sqlite', owlfi.Simulator(mine, owlfi.Normal(), ['a']))"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert "mine is defined in a script or notebook" in ran.stderr
    assert "from model import mine" in ran.stderr
    assert not (tmp_path / "x.sqlite").exists()


def test_wrong_designs_and_files_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"thetas must have shape \(t, 1\)"):
        planned(tmp_path, thetas=np.ones((2, 3)))
    with unchecked(), pytest.raises(ValueError, match="quadrature must be a Quadrature"):
        planned(tmp_path, quadrature=POINTS)
    with pytest.raises(ValueError, match="outside the support"):
        planned(tmp_path, Simulator(models.trivial, Uniform(dim=2), ["a"]))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match=r"folder .* does not exist"):
        planned(tmp_path / "nowhere")
    planned(tmp_path)
    with pytest.raises(ValueError, match=r"exists; open it with Campaign.open"):
        planned(tmp_path)
    with pytest.raises(ValueError, match="there is no campaign at"):
        Campaign.open(tmp_path / "other.sqlite")
    (tmp_path / "text").write_text("no database, but long enough to look like one" * 99)
    with pytest.raises(ValueError, match="is no store of a campaign"):
        Campaign.open(tmp_path / "text")


def test_campaign_that_exists_is_opened_where_it_is_the_same(tmp_path):
    path, q = tmp_path / "runs.sqlite", optimal_weights(C, PLANE, POINTS)
    for _ in range(2):
        campaign = Campaign.create(path, numpy_simulator(), THETAS, q, exist_ok=True)
    assert campaign.run(executor="here").done == 24
    campaign.extend([[7.0]])
    again = Campaign.create(path, numpy_simulator(), THETAS, q, exist_ok=True)
    assert again.status().waiting == 4
    with pytest.raises(ValueError, match="runs of another simulator; choose another file"):
        Campaign.create(path, jax_simulator(), THETAS, q, exist_ok=True)
    others = {
        "thetas": (THETAS + 1, q),
        "points u": (THETAS, optimal_weights(C, PLANE, POINTS[::-1])),
        "weights": (THETAS, equal_weights(C, PLANE, POINTS)),
    }
    for what, design in others.items():
        with pytest.raises(ValueError, match=f"has a design with other {what}; choose another"):
            Campaign.create(path, numpy_simulator(), *design, exist_ok=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 0}, "workers must be a whole number of at least 1"),
        ({"time_limit": -1.0}, "time_limit must be positive"),
        ({"executor": "here", "time_limit": 1.0}, "an engine that can kill a run"),
        ({"max_failures": 20}, "max_failures must be a share from 0 to 1, got 20"),
        ({"retries": -1}, "retries must be a whole number of at least 0"),
        ({"executor": "foo"}, "address of a Dask scheduler such as .*, got 'foo'"),
        ({"time_limit": "60"}, "time_limit must hold real numbers only.*, got '60'"),
        ({"seconds": "60"}, "seconds must hold real numbers only.*, got '60'"),
        ({"max_failures": "few"}, "max_failures must hold real numbers only.*, got 'few'"),
        ({"trust": "no"}, "trust must be True or False, got 'no'"),
        ({"accept_changes": 1}, "accept_changes must be True or False, got 1"),
        ({"retry_failed": None}, "retry_failed must be True or False, got None"),
        ({"executor": 3}, "executor must be a concurrent.futures.Executor"),
        ({"executor": ThreadPoolExecutor(1), "time_limit": 1.0}, "an engine that can kill a run"),
    ],
)
def test_wrong_options_are_refused(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        planned(tmp_path).run(**options)


def test_executor_that_runs_rows_itself_keeps_none_from_being_committed(tmp_path):
    points = line(0.1, 0.5, 0.9)
    campaign, recorded = planned(tmp_path, on_line(models.slow), [1.0, 2.0], points), []

    class Eager(Executor):
        def submit(self, function, *arguments):
            recorded.append(campaign.status().done)
            future = Future()
            future.set_result(function(*arguments))
            return future

    campaign.run(executor=Eager(), workers=4, check=False)
    assert recorded == [0, 1, 2, 3, 4, 5]


class Wrapped(Executor):
    """Shows nothing of what it does with a run."""

    def __init__(self, submit):
        self.submit = submit


@pytest.mark.filterwarnings("ignore")  # of JAX, that it may hang
def test_executor_that_forks_unseen_makes_no_failed_runs(tmp_path):
    context, campaign = multiprocessing.get_context("fork"), planned(tmp_path)
    with (
        ProcessPoolExecutor(1, mp_context=context) as pool,
        pytest.raises(RuntimeError, match="was forked from one in which JAX had started"),
    ):
        campaign.run(executor=Wrapped(pool.submit), workers=1)
    assert campaign.status().failed == 0


@pytest.mark.parametrize("given", [3, Future()])
def test_executor_that_gives_something_else_is_named(tmp_path, given):
    if isinstance(given, Future):
        given.set_result("abc")
    with pytest.raises(ValueError, match="what executor gives must be"):
        planned(tmp_path).run(executor=Wrapped(lambda *_: given), workers=1)


def test_executor_that_takes_no_more_is_explained(tmp_path):
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    with pytest.raises(RuntimeError, match=r"takes no more runs .* what had ended is kept"):
        planned(tmp_path).run(executor=executor)


def test_import_paths_that_lead_nowhere_are_refused(tmp_path):
    for path in ("nothing", "no_such_module:f", "campaign_models:missing"):
        with pytest.raises(ValueError, match=r"import path must look|cannot be imported"):
            planned(tmp_path, path)
    with pytest.raises(ValueError, match="simulator must be a Simulator"):
        planned(tmp_path, "campaign_models:UNIFORM")


# The store


def test_store_is_imported_without_the_rest_of_owlfi():
    """What only reads a store need not wait for campaigns; of JAX there is what owlfi imports."""
    code = (
        "import sys, owlfi; before = set(sys.modules); import owlfi.campaign.store\n"
        "print(*sorted(m for m in set(sys.modules) - before if m.startswith(('owlfi', 'jax'))))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    rooms = ("", ".database", ".outcome", ".store")
    assert ran.stdout.split() == [f"owlfi.campaign{room}" for room in rooms]


def test_store_is_one_file_written_with_full_synchronisation(tmp_path):
    campaign = planned(tmp_path)
    campaign.run(executor="here")
    store = Store.open(campaign.path)
    assert store.connection.execute("PRAGMA synchronous").fetchone() == (2,)
    store.close()
    assert {file.name for file in tmp_path.iterdir()} <= {"runs.sqlite", "runs.sqlite.lock"}


@pytest.mark.slow
def test_status_of_a_million_runs_takes_below_a_second(tmp_path):
    Store.create(tmp_path / "big.sqlite", recipe='"owlfi.models:wind_farm"', total=1_000_000)
    store = Store.open(tmp_path / "big.sqlite")
    rows = (
        (i.to_bytes(16, "big"), i, "done" if i % 10 else "crash", 0.5, 1, "host", "", bytes(80))
        for i in range(1_000_000)
    )
    with store.transaction():
        store.connection.executemany("INSERT INTO runs VALUES (?,?,?,?,?,?,?,?,NULL,NULL,0)", rows)
    store.close()
    campaign = Campaign.open(tmp_path / "big.sqlite")
    start = time.perf_counter()
    status = campaign.status()
    assert time.perf_counter() - start < 1.0
    assert (status.done, status.failed, status.mean_seconds) == (900_000, 100_000, 0.5)


def test_network_file_systems_are_found_and_warned_of(tmp_path, monkeypatch):
    from owlfi.campaign import database

    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/vda / ext4 rw 0 0\nserver:/home {tmp_path / 'home'} nfs4 rw 0 0\n")
    monkeypatch.setattr(database, "_MOUNTS", mounts)
    assert network_file_system(tmp_path / "home" / "x") == "nfs4"
    assert network_file_system(tmp_path / "x") == ""
    (tmp_path / "home").mkdir()
    with pytest.warns(UserWarning, match=r"network file system \(nfs4\)"):
        Store.create(Path(tmp_path / "home" / "x"), recipe="")


@pytest.mark.slow
def test_wind_farm_of_the_paper_as_a_campaign(tmp_path):
    stored = stored_runs()
    weighted = optimal_weights(C, Normal(), stored.u[:100])
    campaign = planned(tmp_path, "owlfi.models:wind_farm", stored.theta[:100], weighted)
    assert campaign.run(workers=2, time_limit=60).done == 1_000
    assert_allclose(campaign.results().y, stored.y[:100], rtol=1e-12)
