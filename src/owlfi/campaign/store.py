"""The store of a campaign: one SQLite file that survives being killed at any moment.

A run is known by the digest of its theta and u; a row exists once the run has ended.
"""

import hashlib
import json
import os
import sqlite3
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from owlfi.campaign.outcome import DONE, Outcome

_VERSION = 1
_MOUNTS = Path("/proc/mounts")
_NETWORK = ("nfs", "cifs", "smb", "lustre", "gpfs", "beegfs", "ceph", "afs", "fuse.sshfs", "9p")
_SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE runs (
    digest BLOB NOT NULL,
    place INTEGER,   -- in the design; NULL outside it, where theta and u are kept
    state TEXT NOT NULL,
    seconds REAL,
    attempts INTEGER NOT NULL,
    host TEXT NOT NULL,
    error TEXT NOT NULL,
    y BLOB,
    theta BLOB,
    u BLOB
);
CREATE UNIQUE INDEX runs_by_digest ON runs (digest);
CREATE INDEX runs_by_state ON runs (place IS NULL, state, seconds);
"""


class Run(NamedTuple):
    """One row to be computed: where it is in the design, and its inputs as doubles."""

    digest: bytes
    place: int | None
    theta: bytes
    u: bytes


class Ending(NamedTuple):
    """What is known of a run that has ended; imported ones need not tell their seconds."""

    state: str
    attempts: int
    seconds: float | None


class Failure(NamedTuple):
    """A run that failed; theta and u as doubles where it has no place in the design."""

    place: int | None
    state: str
    attempts: int
    error: str
    theta: bytes | None
    u: bytes | None


def digest(theta: bytes, u: bytes) -> bytes:
    """The name of a run."""
    return hashlib.blake2b(theta + u, digest_size=16).digest()


def as_bytes(array: Any) -> bytes:
    """Doubles as bytes; -0.0 and 0.0 are one number."""
    return (np.ascontiguousarray(array, dtype=float) + 0.0).tobytes()


class Store:
    """Facts by name, and runs by digest."""

    def __init__(self, connection: sqlite3.Connection, path: Path):
        self.connection = connection
        self.path = path

    @classmethod
    def create(cls, path: Path, **facts: Any) -> None:
        """A new store with these facts, or none at all.

        Raises ValueError where the file exists, or its folder does not.
        """
        if path.exists():
            raise ValueError(
                f"{path} exists; open it with Campaign.open, or exist_ok=True where it is the "
                "same campaign, or choose another name"
            )
        if not path.parent.is_dir():
            raise ValueError(f"the folder {path.parent} of the store does not exist; create it")
        unfinished = path.with_name(f"{path.name}.new")
        unfinished.unlink(missing_ok=True)
        with closing(cls(_connect(unfinished, "rwc"), unfinished)) as store:
            store.connection.executescript(_SCHEMA)
            with store.transaction():
                store.put(version=_VERSION, **facts)
        unfinished.rename(path)

    @classmethod
    def open(cls, path: Path, *, read_only: bool = False) -> "Store":
        """An existing store.

        Raises ValueError where it is missing, or is no store of this version.
        """
        if not path.is_file():
            raise ValueError(
                f"there is no campaign at {path}; make one with Campaign.create or "
                "`owlfi campaign new`"
            )
        store = cls(_connect(path, "ro" if read_only else "rw"), path)
        try:
            version = store.fact("version")
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{path} is no store of a campaign ({error})") from error
        if version != _VERSION:
            raise ValueError(f"{path} has version {version}, this owlfi reads {_VERSION}")
        return store

    def close(self) -> None:
        """Let go of the file."""
        self.connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is written inside, or nothing."""
        with self.connection:  # commits, or rolls back
            self.connection.execute("BEGIN IMMEDIATE")
            yield

    def put(self, **facts: Any) -> None:
        """Write facts, as JSON."""
        rows = [(name, json.dumps(value)) for name, value in facts.items()]
        self.connection.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", rows)

    def fact(self, name: str) -> Any:
        """A fact by name, None where there is none."""
        row = self.connection.execute("SELECT value FROM facts WHERE name = ?", [name]).fetchone()
        return None if row is None else json.loads(row[0])

    def record(self, runs: Iterable[tuple[Run, Outcome, int]], **facts: Any) -> None:
        """Write how runs ended, with the number of their attempts, in one transaction."""
        insert = f"INSERT OR REPLACE INTO runs VALUES ({', '.join('?' * 10)})"
        with self.transaction():
            self.connection.executemany(insert, [_row(*one) for one in runs])
            self.put(**facts)

    def endings(self) -> dict[bytes, Ending]:
        """All runs that ended, by digest, inside the design and outside."""
        rows = self.connection.execute("SELECT digest, state, attempts, seconds FROM runs")
        return {name: Ending(*rest) for name, *rest in rows}

    def outputs(self) -> dict[bytes, bytes]:
        """y of every run that is done."""
        return dict(self.connection.execute("SELECT digest, y FROM runs WHERE state = ?", [DONE]))

    def outcome(self, name: bytes) -> Outcome | None:
        """How the run of a digest ended, None where it has not."""
        query = "SELECT state, y, seconds, host, error FROM runs WHERE digest = ?"
        row = self.connection.execute(query, [name]).fetchone()
        return None if row is None else Outcome(*row)

    def calls(self) -> int:
        """How often the simulator was called, attempts and checks of all runs that ended."""
        attempts = self.connection.execute("SELECT total(attempts) FROM runs").fetchone()[0]
        return int(attempts) + (self.fact("checks") or 0)

    def counts(self) -> dict[str, tuple[int, float]]:
        """For each state the number of runs of the design, and their seconds."""
        rows = self.connection.execute(
            "SELECT state, count(*), total(seconds) FROM runs INDEXED BY runs_by_state "
            "WHERE (place IS NULL) = 0 GROUP BY state"
        )
        return {state: (count, seconds) for state, count, seconds in rows}

    def failures(self, most: int | None = None) -> list[Failure]:
        """Failed runs in the order of the design, then those outside it."""
        rows = self.connection.execute(
            "SELECT place, state, attempts, error, theta, u FROM runs WHERE state != ? "
            "ORDER BY place IS NULL, place LIMIT ?",
            [DONE, -1 if most is None else most],
        )
        return [Failure(*row) for row in rows]

    def forget_failures(self) -> None:
        """Failed runs are to be made again; their calls still count."""
        failed = "FROM runs WHERE state != ?"
        with self.transaction():
            spent = self.connection.execute(f"SELECT total(attempts) {failed}", [DONE]).fetchone()
            self.put(checks=(self.fact("checks") or 0) + int(spent[0]))
            self.connection.execute(f"DELETE {failed}", [DONE])

    def adopt(self, runs: Sequence[Run]) -> None:
        """Give runs made before the design their places in it."""
        self.connection.executemany(
            "UPDATE runs SET place = ?, theta = NULL, u = NULL WHERE digest = ?",
            [(run.place, run.digest) for run in runs],
        )


def _row(run: Run, outcome: Outcome, attempts: int) -> tuple[Any, ...]:
    inputs = (run.theta, run.u) if run.place is None else (None, None)
    end = (outcome.state, outcome.seconds, attempts, outcome.host, outcome.error, outcome.y)
    return (run.digest, run.place, *end, *inputs)


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    """mode: as in SQLite's addresses; what only reads still tidies the log away where it may."""
    opened = "rw" if mode == "ro" and os.access(path, os.W_OK) else mode
    address = f"{path.resolve().as_uri()}?mode={opened}"
    connection = sqlite3.connect(address, uri=True, isolation_level=None, timeout=60)
    if mode == "ro":
        connection.execute("PRAGMA query_only = ON")
    else:
        network = network_file_system(path)
        if network:
            warnings.warn(
                f"{path} is on a network file system ({network}): open it from one machine only, "
                "or keep it on a local disk",
                stacklevel=2,
            )
        # The write-ahead log needs memory shared by all readers, so one machine.
        connection.execute(f"PRAGMA journal_mode = {'DELETE' if network else 'WAL'}")
        connection.execute("PRAGMA synchronous = FULL")
    return connection


def network_file_system(path: Path) -> str:
    """The kind of network file system that holds a path; empty for a local disk, or unknown."""
    if not _MOUNTS.exists():
        return ""
    where = path.resolve()
    mounts = [line.split()[1:3] for line in _MOUNTS.read_text().splitlines()]
    holding = [(point, kind) for point, kind in mounts if where.is_relative_to(point)]
    kind = max(holding, key=lambda mount: len(mount[0]), default=("", ""))[1]
    return kind if kind.startswith(_NETWORK) else ""
