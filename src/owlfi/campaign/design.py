"""A design: the thetas, the points u with their weights, and the runs that they ask for."""

import hashlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from owlfi.campaign.encoding import decode, encode
from owlfi.campaign.store import Run, as_bytes
from owlfi.quadrature import Quadrature


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
    def read(cls, text: str) -> "Design":
        """The design from the fact of that name."""
        return cls(*decode(text))

    def distinct(self) -> list[Run]:
        """Each pair (theta, u) once, at its first place."""
        return list({run.digest: run for run in reversed(list(self.runs()))}.values())[::-1]

    def runs(self) -> Iterator[Run]:
        """All runs, theta by theta; a pair (theta, u) that comes again has its digest again."""
        points = np.asarray(self.quadrature.points)
        shared = [as_bytes(u) for u in points] if points.ndim == 2 else None
        place = 0
        for i, row in enumerate(self.thetas):
            theta = as_bytes(row)
            begun = hashlib.blake2b(theta, digest_size=16)  # as in store.digest
            for u in shared or map(as_bytes, points[i]):
                named = begun.copy()
                named.update(u)
                yield Run(named.digest(), place, theta, u)
                place += 1


def described(
    design: Design | None,
    place: int | None,
    state: str,
    attempts: int,
    error: str,
    theta: Any,
    u: Any,
) -> str:
    """A failed run with its theta and u, which those of the design have by their place."""
    if place is not None and design is not None:
        i, j = divmod(place, design.shape[1])
        points = np.asarray(design.quadrature.points)
        theta, u = design.thetas[i], (points[i] if points.ndim == 3 else points)[j]
    else:
        theta, u = np.frombuffer(theta), np.frombuffer(u)
    tries = "" if attempts == 1 else f" ({attempts} attempts)"
    return f"{state}{tries} at theta = {theta}, u = {u}: {error.strip()}"
