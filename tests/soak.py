"""Campaigns under random kills: nothing recorded is lost, repeated or changed.

python tests/soak.py --minutes 30 --report docs/soak.md

Drivers are forked from here, before JAX has started, and so take little time to start: one with
threads, one with processes, one with programs, one on a Dask cluster. Each step starts a driver,
does it harm, and then looks at the store: it is whole, has all runs that it had, with the same
bytes, and no run that was recorded before the step was made again in it; where only drivers were
harmed, none was made twice. Only processes that were started from here are killed.
"""

import argparse
import json
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import distributed  # noqa: F401  (so that forked drivers need not import it)

import owlfi
from owlfi.campaign import Campaign, Command, exchange
from owlfi.campaign.store import Store, as_bytes, digest

POINTS = np.linspace(-2.0, 2.0, 20)
THETAS = np.arange(1.0, 201.0)
PROGRAM = (
    'sleep 0.2; echo "$1 $2 0" >> "$OWLFI_TEST_LOG"; '
    'awk -v a="$1" -v b="$2" \'BEGIN { printf "%.17g", a * b }\''
)
RETRIES = 10**6  # whatever is killed is made again
REFUSED = 3  # how a process ends that must not write


class Soak:
    """A store of each kind, what was known of it, and what happened."""

    def __init__(self, folder, seed):
        self.folder = folder
        self.draw = random.Random(seed)
        self.counts = Counter()
        self.known = {}
        self.logged = {}
        self.killed = 0.0  # when the last driver was
        self.stopped = self.pause_seconds = 0.0  # when the last driver was, and for how long
        self.longest_loss = 0.0  # seconds between the end of a run and the kill that lost it
        self.cluster = start_cluster(folder)
        self.address = f"tcp://127.0.0.1:{self.cluster.port}"

    def step(self):
        """Harm of some kind, and a look at what it did."""
        kinds = {
            self.kill_driver: 45,
            self.kill_programs: 25,
            self.kill_workers: 5,
            self.kill_group: 4,
            self.kill_on_dask: 5,
            self.restart_scheduler: 1,
            self.pause: 4,
            self.fill_disk: 4,
            self.start_two: 3,
            self.exchange: 3,
        }
        (harm,) = self.draw.choices(list(kinds), list(kinds.values()))
        kind = {
            self.kill_programs: "programs",
            self.kill_workers: "processes",
            self.kill_group: "processes",
            self.kill_on_dask: "dask",
            self.restart_scheduler: "dask",
        }.get(harm, "threads")
        path = self.open_store(kind)
        self.counts[harm.__name__] += 1
        harm(path)
        self.look(kind, path)

    def open_store(self, kind):
        """The store of a kind; a new one where all its runs are made."""
        path = self.folder / kind / "runs.sqlite"
        if path.exists() and len(self.known[kind]) == len(POINTS) * len(THETAS):
            self.counts["stores finished"] += 1
            shutil.rmtree(path.parent)
        if not path.exists():
            path.parent.mkdir()
            self.known[kind], self.logged[kind] = {}, 0
            wait(fork(partial(create, path, kind)))
        return path

    def look(self, kind, path):
        """AssertionError where the store is not as it should be."""
        with closing(Store.open(path, read_only=True)) as store:
            assert store.faults() == ([], []), f"{kind}: damaged"
            outputs = store.outputs()
            failures = [failure for failure in store.failures() if failure.state != "crash"]
        assert not failures, f"{kind}: {failures[:3]}"
        known, expected = self.known[kind], expected_outputs()
        assert known.items() <= outputs.items(), f"{kind}: a recorded run is lost or changed"
        assert outputs.items() <= expected.items(), f"{kind}: other bytes than the simulator gives"
        lines = log_of(path).read_text().splitlines() if log_of(path).exists() else []
        made = [name_and_time(line) for line in lines[self.logged[kind] :]]
        names = {name for name, _ in made}
        assert not names & known.keys(), f"{kind}: a recorded run was made again"
        if kind == "threads":
            assert len(names) == len(made), "a run was made twice, by one driver after another"
            lost = [self.time_since(end) for name, end in made if name not in outputs]
            self.longest_loss = max([self.longest_loss, *lost])
        self.counts["runs"] += len(outputs) - len(known)
        self.known[kind], self.logged[kind] = outputs, len(lines)

    def time_since(self, end):
        """Seconds that a driver had, from the end of a run to its kill."""
        paused = self.pause_seconds if end < self.stopped < self.killed else 0.0
        return self.killed - end - paused

    def kill(self, pid, what, *, group=False):
        self.killed = time.time()
        try:
            os.killpg(pid, signal.SIGKILL) if group else os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self.counts[f"kills of {what}"] += 1

    def kill_driver(self, path):
        driver = fork(partial(drive_threads, path))
        if self.draw.random() < 0.7:
            wait_for_growth(log_of(path))
        time.sleep(self.draw.uniform(0.0, 1.0))
        self.kill(driver, "drivers")
        wait(driver)

    def kill_programs(self, path):
        driver = fork(partial(drive_threads, path))
        wait_for_growth(log_of(path))
        for _ in range(self.draw.randint(40, 120)):
            time.sleep(self.draw.uniform(0.0, 0.1))
            for pid in children_of(driver)[:2]:
                self.kill(pid, "programs")
        self.kill(driver, "drivers")
        wait(driver)

    def kill_workers(self, path):
        driver = fork(partial(drive_processes, path))
        wait_for_growth(log_of(path))
        for _ in range(self.draw.randint(1, 3)):
            time.sleep(self.draw.uniform(0.0, 1.0))
            workers = children_of(driver, "spawn_main")
            if workers:
                self.kill(self.draw.choice(workers), "workers")
        self.kill(driver, "drivers")
        wait(driver)
        wait_for_end(path)

    def kill_group(self, path):
        driver = fork(partial(drive_processes, path))
        time.sleep(self.draw.uniform(0.0, 6.0))
        self.kill(driver, "groups", group=True)
        wait(driver)
        wait_for_end(path)

    def kill_on_dask(self, path):
        driver = fork(partial(drive_dask, path, self.address))
        wait_for_growth(log_of(path))
        time.sleep(self.draw.uniform(0.0, 1.0))
        workers = self.cluster.workers()
        if workers and self.draw.random() < 0.7:
            self.kill(self.draw.choice(workers), "Dask workers")
            time.sleep(self.draw.uniform(0.0, 2.0))
        self.kill(driver, "drivers")
        wait(driver)
        time.sleep(1.0)  # what workers have begun ends

    def restart_scheduler(self, path):
        """A driver that loses its scheduler goes on with the one that comes back."""
        driver = fork(partial(drive_dask, path, self.address))
        met = wait_for_growth(log_of(path), 120.0) or is_finished(path)
        assert met, "no run on Dask"
        self.kill(self.cluster.scheduler.pid, "schedulers")
        self.cluster.stop()  # its workers go with it
        self.cluster.begin()
        grown = wait_for_growth(log_of(path), 120.0)
        alive = os.waitpid(driver, os.WNOHANG) == (0, 0)
        if not is_finished(path):
            assert alive, "a driver ended with its scheduler"
            assert grown, "no run after the scheduler came back"
        if alive:
            self.kill(driver, "drivers")
            wait(driver)
        time.sleep(1.0)

    def pause(self, path):
        """A driver that is stopped still has its store, and goes on."""
        driver = fork(partial(drive_threads, path))
        wait_for_growth(log_of(path), 5.0)
        os.kill(driver, signal.SIGSTOP)
        self.stopped = time.time()
        with closing(Store.open(path, read_only=True)) as store:
            store.counts()
        second = wait(fork(partial(drive_threads, path)))
        assert second == (0 if is_finished(path) else REFUSED), f"a second driver: {second}"
        self.pause_seconds = time.time() - self.stopped
        os.kill(driver, signal.SIGCONT)
        wait_for_growth(log_of(path), 5.0)
        self.kill(driver, "drivers")
        wait(driver)

    def fill_disk(self, path):
        """A driver whose files must not grow ends with a message of its own."""
        room = path.stat().st_size + self.draw.randint(0, 200_000)
        status = wait(fork(partial(drive_with_little_room, path, room)))
        assert status == 0, f"full disk: {status}"

    def start_two(self, path):
        link = path.with_name(f"link-{self.draw.random()}.sqlite")
        self.draw.choice([os.symlink, os.link])(path, link)
        drivers = [fork(partial(drive_threads, name)) for name in (path, link)]
        refused = wait_for_one(drivers)
        for driver in {*drivers} - {*refused}:
            self.kill(driver, "drivers")
            wait(driver)
        link.unlink()
        expected = 0 if is_finished(path) else REFUSED
        assert [*refused.values()] in ([REFUSED], [expected]), f"two drivers at once: {refused}"

    def exchange(self, path):
        """Runs that are not recorded, made from an exported design while a driver works."""
        assert wait(fork(partial(export, path))) == 0
        driver = fork(partial(drive_threads, path))
        time.sleep(self.draw.uniform(0.0, 0.5))
        worker = fork(partial(import_some, path))
        time.sleep(self.draw.uniform(0.0, 1.0))
        self.kill(driver, "drivers")
        wait(driver)
        if self.draw.random() < 0.5:
            self.kill(worker, "imports")
        assert wait(worker) in (0, REFUSED, -signal.SIGKILL)


# What forked processes do


def fork(work):
    """The process that does some work, in a group of its own."""
    child = os.fork()
    if child:
        return child
    os.setpgid(0, 0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    code = 1
    try:
        code = work() or 0
    except ValueError:
        code = REFUSED
    finally:
        os._exit(code)


def wait(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def wait_for_one(children, seconds=120.0):
    """How the first of some processes to end did so; none where all go on for so long."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for child in children:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return {child: os.waitstatus_to_exitcode(status)}
        time.sleep(0.02)
    return {}


def create(path, kind):
    import campaign_models as models  # which starts JAX

    noise = owlfi.Normal()
    command = Command(["sh", "-c", PROGRAM, "sh", "{theta}", "{u}"])
    generator = command if kind == "programs" else models.logged
    simulator = owlfi.Simulator(generator, noise, ["a"], on_host=True)
    points = owlfi.equal_weights(owlfi.SquaredExponential(1.0), noise, POINTS)
    Campaign.create(path, simulator, THETAS, points)


def drive_threads(path):
    drive(path, executor=ThreadPoolExecutor(2))


def drive_processes(path):
    drive(path, workers=2)


def drive_dask(path, address):
    drive(path, executor=address)


def drive(path, **options):
    os.environ["OWLFI_TEST_LOG"] = str(log_of(path))
    Campaign.open(path).run(check=False, retries=RETRIES, max_failures=1.0, **options)


def drive_with_little_room(path, room):
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    os.environ["OWLFI_TEST_LOG"] = os.devnull
    try:
        drive_unlogged(path)
    except OSError as error:
        return 0 if "runs.sqlite" in str(error) else 1
    return 0


def drive_unlogged(path):
    Campaign.open(path).run(executor="here", check=False, budget=300)


def export(path):
    exchange.export_design(Campaign.open(path), path.with_name("design.npz"))


def import_some(path):
    os.environ["OWLFI_TEST_LOG"] = os.devnull
    results = path.with_name("results.csv")
    results.unlink(missing_ok=True)
    exchange.work(path.with_name("design.npz"), results, task=0, tasks=40)
    exchange.import_results(Campaign.open(path), [results])


# Looking at processes and files


def log_of(path):
    return Path(os.path.realpath(path)).with_name("log")


def is_finished(path):
    with closing(Store.open(path, read_only=True)) as store:
        return len(store.outputs()) == len(POINTS) * len(THETAS)


def name_and_time(line):
    """The digest of a run, and when it ended."""
    a, u, end = map(float, line.split())
    return digest(as_bytes([a]), as_bytes([u])), end


def expected_outputs():
    if not _EXPECTED:
        for a in THETAS:
            for u in POINTS:
                _EXPECTED[digest(as_bytes([a]), as_bytes([u]))] = (np.array([a]) * u).tobytes()
    return _EXPECTED


_EXPECTED = {}


def children_of(pid, mark=""):
    """The processes that one has started, those with a mark in their command."""
    found = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # it has ended meanwhile
            found += [
                int(child)
                for child in children.read_text().split()
                if mark in Path(f"/proc/{child}/cmdline").read_text()
            ]
    return found


def wait_for_growth(log, seconds=30.0):
    """Whether a log grows, which is waited for."""
    before, until = size_of(log), time.monotonic() + seconds
    while size_of(log) == before and time.monotonic() < until:
        time.sleep(0.02)
    return size_of(log) > before


def size_of(log):
    return log.stat().st_size if log.exists() else 0


def wait_for_end(path):
    """Until nothing is written any more: orphans end when they see that their driver is gone."""
    before = -1
    while before != size_of(log_of(path)):
        before = size_of(log_of(path))
        time.sleep(0.5)


class start_cluster:  # noqa: N801
    """A Dask scheduler with two workers that are started again when they are killed."""

    def __init__(self, folder):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "OWLFI_TEST_LOG": str(folder / "dask" / "log"),
        }
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.start = partial(subprocess.Popen, env=environment, cwd=folder, **quiet)
        self.begin()

    def begin(self):
        self.scheduler = self.start(
            [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard",
             "--host", "127.0.0.1", "--port", str(self.port)]
        )  # fmt: skip
        self.nanny = self.start(
            [sys.executable, "-m", "distributed.cli.dask_worker", f"tcp://127.0.0.1:{self.port}",
             "--nworkers", "2", "--nthreads", "1", "--no-dashboard"]
        )  # fmt: skip

    def workers(self):
        return children_of(self.nanny.pid, "spawn_main")

    def stop(self):
        for process in (self.nanny, self.scheduler):
            process.terminate()
            process.wait()


def describe(soak, seconds, seed, commit):
    """The report, as tables."""
    harm = [name for name in soak.counts if name in dir(Soak)]
    kills = [name for name in soak.counts if name.startswith("kills of ")]
    count = sum(soak.counts[name] for name in kills)
    return (
        "# A soak\n\n"
        f"`make soak` with seed {seed}{commit}: {seconds / 60:.0f} minutes, {count:,} kills, "
        f"{soak.counts['runs']:,} runs recorded.\n\n"
        f"After each of {sum(soak.counts[name] for name in harm):,} steps the store was whole, had "
        "every run that it had before, with the\nbytes that the simulator gives, and no recorded "
        "run was made again. Where drivers were killed, the\noldest run that was lost had ended "
        f"{1000 * soak.longest_loss:.0f} ms before, pauses left out.\n\n"
        f"{as_table('step', soak.counts, harm)}\n{as_table('kills of', soak.counts, kills)}"
    )


def as_table(title, counts, names):
    rows = [
        f"| {name.removeprefix('kills of ').replace('_', ' ')} | {counts[name]:,} |"
        for name in sorted(names)
    ]
    return "\n".join([f"| {title} | how often |", "|---|---|", *rows, ""])


def name_commit():
    """Of the checkout, where there is one."""
    git = partial(subprocess.run, capture_output=True, text=True, cwd=Path(__file__).parent)
    found = git(["git", "rev-parse", "--short", "HEAD"]).stdout.strip()
    changed = git(["git", "status", "--porcelain", "--", ".", "../src"]).stdout.strip()
    return f" on {found}{' with changes' if changed else ''}" if found else ""


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    warnings.filterwarnings("ignore", "os.fork")  # JAX has not started here
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--minutes", type=float, default=30.0)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--report", type=Path)
    chosen = options.parse_args()
    start, commit = time.monotonic(), name_commit()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        soak = Soak(Path(folder), chosen.seed)
        try:
            while time.monotonic() < start + 60 * chosen.minutes:
                soak.step()
                print(json.dumps(soak.counts), f"{soak.longest_loss:.3f}", flush=True)
        finally:
            soak.cluster.stop()
    report = describe(soak, time.monotonic() - start, chosen.seed, commit)
    print(report)
    if chosen.report is not None:
        chosen.report.write_text(report)


if __name__ == "__main__":
    main()
