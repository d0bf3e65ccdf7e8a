"""What a campaign adds to each run, how its store grows, and how soon its status is known."""

import hashlib
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import Bar, Row
from benchmarks.timing import time_call

_RUNS = 10_000
_POINTS = 10
_LARGE = 1_000_000
_TURNS = 7
OWLFI = "owlfi.campaign"


def trivial(theta: np.ndarray, u: np.ndarray) -> np.ndarray:
    return u


@contextmanager
def _campaign(runs: int) -> Iterator[Any]:
    import owlfi
    from benchmarks import campaign as this  # by name: workers cannot import __main__
    from owlfi.campaign import Campaign

    noise = owlfi.Uniform()
    simulator = owlfi.Simulator(this.trivial, noise, ["a"], on_host=True)
    u = np.linspace(0.1, 0.9, _POINTS)
    q = owlfi.equal_weights(owlfi.SquaredExponential(1.0), noise, u)
    with tempfile.TemporaryDirectory() as folder:
        thetas = np.arange(1.0, 1 + runs / _POINTS)
        yield Campaign.create(Path(folder) / "runs.sqlite", simulator, thetas, q)


def _time_run(campaign: Any, budget: int) -> float:
    return time_call(lambda: campaign.run(workers=2, budget=budget, check=False))


def overhead() -> list[Row]:
    """The whole call of `run`, the start of the workers included."""
    with _campaign(_RUNS) as campaign:
        half = _time_run(campaign, _RUNS // 2)
        size = campaign.path.stat().st_size
        seconds = half + _time_run(campaign, _RUNS // 2)
        growth = (campaign.path.stat().st_size - size) / size
    with _campaign(_RUNS) as campaign:
        whole = _time_run(campaign, _RUNS)
    what = f"{_RUNS:,} trivial runs, 2 processes, start included"
    return [
        Row(what, OWLFI, 1e3 * whole / _RUNS, "ms a run", bar=Bar(0.5, "ms a run", at_least=False)),
        Row(f"{what} twice", OWLFI, 1e3 * seconds / _RUNS, "ms a run"),
        Row("second 5,000 runs in the store", OWLFI, growth, "of the size of the first"),
    ]


def status() -> list[Row]:
    from owlfi.campaign import Campaign
    from owlfi.campaign.store import Store

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.sqlite"
        Store.create(path, recipe='"owlfi.models:wind_farm"', total=_LARGE)
        store = Store.open(path)
        rows = (
            (hashlib.md5(str(i).encode()).digest(), i, "done", 0.5, 1, "host", "", bytes(80))
            for i in range(_LARGE)
        )
        with store.transaction():
            command = "INSERT INTO runs VALUES (?,?,?,?,?,?,?,?,NULL,NULL,0)"
            store.connection.executemany(command, rows)
        store.close()
        campaign = Campaign.open(path)
        seconds = time_call(campaign.status)
    what = f"status of {_LARGE:,} runs"
    return [Row(what, OWLFI, seconds, "s", bar=Bar(0.5, "s", at_least=False))]


def checksums() -> list[Row]:
    """Made and compared once a run: their time on this core beside all that the driver does."""
    from owlfi.campaign.store import _checksum_run

    with _campaign(_RUNS) as campaign:
        whole = _time_core(lambda: (campaign.run(workers=2, check=False), campaign.results()))
    run = (bytes(16), "done", 1, 1.2345678901234e-05, bytes(8))
    both = min(
        _time_core(lambda: [_checksum_run(*run) for _ in range(2 * _RUNS)]) for _ in range(_TURNS)
    )
    what = f"checksums of {_RUNS:,} trivial runs, made and read"
    return [
        Row(what, OWLFI, 100 * both / whole, "% of the time", bar=Bar(5, "%", at_least=False)),
    ]


def _time_core(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


BENCHMARKS = {"overhead": overhead, "status": status, "checksums": checksums}
