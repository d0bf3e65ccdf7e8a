"""How far a campaign is, and who is running it."""

import os
import socket
import time
from dataclasses import dataclass
from typing import Any

from owlfi.campaign.outcome import DONE
from owlfi.campaign.store import Store


@dataclass(frozen=True)
class Status:
    """How far a campaign is; runs that are in the design twice count once."""

    total: int
    done: int
    failed: int
    running: int
    mean_seconds: float
    """Of the runs that are done, NaN where there are none."""
    failures: dict[str, int]
    """How many runs failed in which way."""
    calls: int = 0
    """How often the simulator was called, attempts, checks and runs outside the design included."""
    driver: str = ""
    """Who is running it at the moment, if anyone."""

    @property
    def waiting(self) -> int:
        """Runs of the design that have not ended."""
        return self.total - self.done - self.failed


def read_status(store: Store) -> Status:
    """The status from what is in the store."""
    counts = store.counts()
    done, seconds = counts.pop(DONE, (0, 0.0))
    failures = {state: count for state, (count, _) in counts.items()}
    driver = _name_driver(store.fact("driver"))
    return Status(
        total=store.fact("total") or 0,
        done=done,
        failed=sum(failures.values()),
        running=store.fact("running") or 0 if driver else 0,
        mean_seconds=seconds / done if done else float("nan"),
        failures=failures,
        calls=store.calls(),
        driver=driver,
    )


def describe_process() -> dict[str, Any]:
    """Who is running a campaign now."""
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    return {"pid": os.getpid(), "host": socket.gethostname(), "since": since}


def _name_driver(driver: dict[str, Any] | None) -> str:
    """Who is running a campaign; empty where that process is known to be gone."""
    if driver is None:
        return ""
    if driver["host"] == socket.gethostname():
        try:
            os.kill(driver["pid"], 0)
        except ProcessLookupError:
            return ""
        except PermissionError:
            pass  # another user's, so it lives
    return f"process {driver['pid']} on {driver['host']} since {driver['since']}"
