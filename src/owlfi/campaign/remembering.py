"""A simulator that remembers: it asks the store of a campaign first, and runs what is missing."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from owlfi.campaign.archive import Archive
from owlfi.campaign.outcome import Outcome
from owlfi.campaign.running import Runner
from owlfi.campaign.store import Run, as_bytes, digest


@dataclass(frozen=True)
class Remembering:
    """A generator that asks the archive of a campaign, and its runner for what is not there."""

    archive: Archive = field(repr=False)
    runner: Runner = field(repr=False)

    def __call__(self, theta: Any, u: Any) -> np.ndarray:
        """y (m, d) at one theta and u (m, s), from the store where it is known.

        A run that failed, now or before, is a row of NaN; the campaign's `failures` tells why.

        Raises ValueError where every run failed, so that d is not known.
        """
        inputs = [(as_bytes(theta), as_bytes(row)) for row in np.asarray(u)]
        runs = [Run(digest(*pair), None, *pair) for pair in inputs]
        with self.archive.reading() as store:
            found = {run.digest: store.outcome(run.digest) for run in runs}
        missing = {run.digest: run for run in runs if found[run.digest] is None}
        if missing:
            self.runner.run_these(list(missing.values()))
        with self.archive.reading() as store:
            found |= {name: store.outcome(name) for name in missing}
            columns = store.fact("columns")
        return np.stack([_read_y(run, found[run.digest], columns) for run in runs])


def _read_y(run: Run, outcome: Outcome | None, columns: int | None) -> np.ndarray:
    assert outcome is not None
    if outcome.y is not None:
        return np.frombuffer(outcome.y)
    if columns is None:
        raise ValueError(
            f"the simulator failed ({outcome.state}) at theta = {np.frombuffer(run.theta)}, "
            f"u = {np.frombuffer(run.u)}: {outcome.error}"
        )
    return np.full(columns, np.nan)
