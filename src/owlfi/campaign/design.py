"""A design: the thetas, the points u with their weights, and the runs that they ask for."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from owlfi._tools.checks import MOST_COUNT
from owlfi.campaign.encoding import decode_tuple, encode
from owlfi.campaign.outcome import may_retry
from owlfi.campaign.store import Ending, Failure, Run, as_bytes
from owlfi.problem.simulations import as_design
from owlfi.problem.simulator import Simulator
from owlfi.weights.quadrature import Quadrature


class Design(NamedTuple):
    """thetas (t, p), each to be run at all points of the quadrature."""

    thetas: np.ndarray
    quadrature: Quadrature

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of thetas and of points for each."""
        return len(self.thetas), self.quadrature.m

    def facts(self) -> dict[str, Any]:
        """What a store keeps of it."""
        return {"design": encode(tuple(self)), "total": len(self.distinct())}

    @classmethod
    def fit(cls, simulator: Simulator, thetas: Any, quadrature: Any) -> "Design":
        """The design, with thetas (t, p); ValueError where it does not fit the simulator."""
        found = cls(np.asarray(as_design(simulator, thetas, quadrature)[0]), quadrature)
        t, m = found.shape
        if t * m > MOST_COUNT:
            raise ValueError(
                f"{t:,} thetas at {m:,} points are {t * m:,} runs, where a campaign has at most "
                f"{MOST_COUNT:,}; take fewer"
            )
        return found

    @classmethod
    def read(cls, text: str) -> "Design":
        """The design from the fact of that name; ValueError for other values."""
        design = cls(*decode_tuple(text, np.ndarray, Quadrature))
        if design.thetas.ndim != 2 or np.ndim(design.quadrature.points) not in (2, 3):
            raise ValueError(f"thetas must have shape (t, p), got {design.thetas.shape}")
        return design

    def describe_difference(self, begun: "Design") -> str:
        """In what this is no continuation of another design; empty where it is one."""
        (t, m), q = begun.shape, begun.quadrature
        points, weights = np.asarray(self.quadrature.points), np.asarray(self.quadrature.weights)
        if not _near(self.thetas[:t], begun.thetas):
            return "other thetas"
        if not _near(points[: t if points.ndim == 3 else None][..., :m, :], q.points):
            return "other points u"
        if self.shape[1] == m and not _near(weights[: t if weights.ndim == 2 else None], q.weights):
            return "other weights"
        return ""

    def distinct(self) -> list[Run]:
        """Each pair (theta, u) once, at its first place."""
        return list({run.digest: run for run in reversed(list(self.runs()))}.values())[::-1]

    def pending(self, endings: Mapping[bytes, Ending], *, retries: int) -> list[tuple[Run, int]]:
        """Runs that have not ended, or may be tried again, with the attempts they had."""
        ends = [(run, endings.get(run.digest)) for run in self.distinct()]
        return [
            (run, 0 if end is None else end.attempts)
            for run, end in ends
            if end is None or may_retry(end.state, end.attempts, retries)
        ]

    def runs(self) -> Iterator[Run]:
        """All runs, theta by theta; a pair (theta, u) that comes again has its digest again."""
        points = np.asarray(self.quadrature.points)
        shared = [as_bytes(u) for u in points] if points.ndim == 2 else None
        place = 0
        for i, row in enumerate(self.thetas):
            theta = as_bytes(row)
            of_theta = hashlib.blake2b(theta, digest_size=16)  # as in store.digest
            for u in shared or map(as_bytes, points[i]):
                of_both = of_theta.copy()
                of_both.update(u)
                yield Run(of_both.digest(), place, theta, u)
                place += 1


def _near(a: Any, b: Any) -> bool:
    """Whether numbers are the same but for the rounding of another machine."""
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and np.allclose(a, b, rtol=1e-6, atol=1e-9)


def describe_failure(failure: Failure, design: Design | None) -> str:
    """A failed run with its theta and u, which those of the design have by their place."""
    if failure.place is not None and design is not None:
        i, j = divmod(failure.place, design.shape[1])
        points = np.asarray(design.quadrature.points)
        theta, u = design.thetas[i], (points[i] if points.ndim == 3 else points)[j]
    else:
        theta, u = np.frombuffer(failure.theta or b""), np.frombuffer(failure.u or b"")
    tries = "" if failure.attempts == 1 else f" ({failure.attempts} attempts)"
    return f"{failure.state}{tries} at theta = {theta}, u = {u}: {str(failure.error).strip()}"
