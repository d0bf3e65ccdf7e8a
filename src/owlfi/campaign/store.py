"""The store of a campaign: one SQLite file that survives being killed at any moment.

A run is known by the digest of its theta and u; a row exists once the run has ended.
"""

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from owlfi.campaign.database import StoreError, connect, connect_to_read, create_file, look_at
from owlfi.campaign.outcome import DONE, Outcome

_VERSION = 2
_SCHEMA = """
CREATE TABLE facts (
    name TEXT PRIMARY KEY, value TEXT NOT NULL, checksum INTEGER NOT NULL
) WITHOUT ROWID;
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
    u BLOB,
    checksum INTEGER NOT NULL   -- of digest, state, attempts, seconds and y
);
CREATE UNIQUE INDEX runs_by_digest ON runs (digest);
CREATE INDEX runs_by_state ON runs (state, place, seconds, attempts);  -- all that counts need
"""

_FACTS = {  # their types in JSON; others are nobody's
    **dict.fromkeys(("path", "signature", "design", "outline", "rounds"), str),
    **dict.fromkeys(("version", "total", "columns", "running", "checks"), int),
    **dict.fromkeys(("sources", "driver", "study"), dict),
    "checked": bool,
}
_CHECKED = "digest, state, attempts, seconds, y, checksum"


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
        self._place = _identify(path)

    @classmethod
    def create(cls, path: Path, **facts: Any) -> None:
        """A new store with these facts, or none at all.

        Raises ValueError where the file exists, or its folder does not.
        """
        try:
            name = path.resolve()
        except RuntimeError as error:  # a link that leads to itself
            raise ValueError(f"{path} is no place for a store ({error}); choose another") from error

        def fill(connection: sqlite3.Connection) -> None:
            connection.executescript(_SCHEMA)
            store = cls(connection, path)
            with store.transaction():
                store.put(version=_VERSION, path=str(name), **facts)

        create_file(name, fill)

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
        name = find_name(path)
        with ExitStack() as stack, _refuse_others(path):
            connection = connect_to_read(name) if read_only else connect(name)
            store = stack.enter_context(closing(cls(connection, path)))
            store._check_version()
            if not read_only and store.fact("path") != str(name):  # it was moved
                store.put(path=str(name))
            stack.pop_all()
        return store

    def _check_version(self) -> None:
        """ValueError for what is no store of this version."""
        ask = self.connection.execute
        row = ask("SELECT value FROM facts WHERE name = 'version'").fetchone()
        ask("SELECT 1 FROM runs LIMIT 0")
        if ask("SELECT 1 FROM sqlite_schema WHERE type IN ('trigger', 'view')").fetchone():
            raise _no_store(self.path, "it has triggers or views of somebody else")
        if row is None:
            raise _no_store(self.path, "it has no version")
        if row[0] != str(_VERSION):
            raise ValueError(f"{self.path} has version {row[0]}, not {_VERSION}; use its own owlfi")

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
        """Write facts, as JSON; StoreError where the file was moved or removed meanwhile."""
        if self._place not in (None, _identify(self.path)):
            raise StoreError(
                f"{self.path} was moved or removed while it was run; its last runs are in "
                f"{self.path.name}-wal: put it back beside that before it is opened, and the same "
                "call goes on"
            )
        texts = [(name, json.dumps(value)) for name, value in facts.items()]
        rows = [(name, text, _checksum_fact(name, text)) for name, text in texts]
        self.connection.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?, ?)", rows)

    def fact(self, name: str) -> Any:
        """A fact by name, None where there is none; StoreError where it is damaged."""
        query = "SELECT value, checksum FROM facts WHERE name = ?"
        row = self.connection.execute(query, [name]).fetchone()
        if row is None:
            return None
        whole = _checksum_fact(name, row[0]) == row[1]  # else it may be no JSON
        value = json.loads(row[0]) if whole else None
        if not whole or not isinstance(value, _FACTS.get(name, object) | None):
            raise self.damaged(f"what it says of {name}")
        return value

    def record(self, runs: Iterable[tuple[Run, Outcome, int]], **facts: Any) -> None:
        """Write how runs ended, with the number of their attempts, in one transaction."""
        insert = f"INSERT OR REPLACE INTO runs VALUES ({', '.join('?' * 11)})"
        with self.transaction():
            self.connection.executemany(insert, [_row(*one) for one in runs])
            self.put(**facts)

    def endings(self) -> dict[bytes, Ending]:
        """All runs that ended, by digest, inside the design and outside."""
        rows = self.connection.execute("SELECT digest, state, attempts, seconds FROM runs")
        return {name: Ending(*rest) for name, *rest in rows}

    def outputs(self) -> dict[bytes, bytes]:
        """y of every run that is done; StoreError where any run is damaged."""
        rows = self.connection.execute(f"SELECT {_CHECKED} FROM runs")
        return {row[0]: row[4] for row in map(self._check, rows) if row[1] == DONE}

    def _check(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """The same, if it is as it was written; begins with the columns _CHECKED."""
        if not _is_whole(row):
            raise self.damaged(f"the run {row[0]!r}")
        return row

    def damaged(self, what: str) -> StoreError:
        """The error to raise for what is not as it was written."""
        return StoreError(
            f"{self.path} is damaged: {what} is not what was written; `owlfi campaign check` "
            "tells of all of it, and --mend lets damaged runs be made again"
        )

    def outcome(self, name: bytes) -> Outcome | None:
        """How the run of a digest ended, None where it has not."""
        query = f"SELECT {_CHECKED}, host, error FROM runs WHERE digest = ?"
        row = self.connection.execute(query, [name]).fetchone()
        if row is None:
            return None
        _, state, _, seconds, y, _, host, error = self._check(row)
        return Outcome(state, y, seconds, host, error)

    def calls(self) -> int:
        """How often the simulator was called, attempts and checks of all runs that ended."""
        attempts = self.connection.execute("SELECT total(attempts) FROM runs").fetchone()[0]
        return int(attempts) + (self.fact("checks") or 0)

    def counts(self) -> dict[str, tuple[int, float]]:
        """For each state the number of runs of the design, and their seconds."""
        rows = self.connection.execute(
            "SELECT state, count(*), total(seconds) FROM runs WHERE place NOT NULL GROUP BY state"
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

    def faults(self) -> tuple[list[str], list[bytes]]:
        """What is damaged, in words, and the digests of runs that are."""
        found = [text for (text,) in self.connection.execute("PRAGMA integrity_check")]
        for (name,) in self.connection.execute("SELECT name FROM facts").fetchall():
            try:
                self.fact(name)
            except (StoreError, ValueError) as error:
                found.append(str(error))
        rows = self.connection.execute(f"SELECT {_CHECKED} FROM runs")
        damaged = [row[0] for row in rows if not _is_whole(row)]
        return [text for text in found if text != "ok"], damaged

    def forget(self, names: Iterable[bytes]) -> None:
        """Runs of these digests are to be made again."""
        with self.transaction():
            self.connection.executemany("DELETE FROM runs WHERE digest = ?", zip(names))

    def adopt(self, runs: Sequence[Run]) -> None:
        """Give runs made before the design their places in it."""
        self.connection.executemany(
            "UPDATE runs SET place = ?, theta = NULL, u = NULL WHERE digest = ?",
            [(run.place, run.digest) for run in runs],
        )


def _identify(path: Path) -> tuple[int, int] | None:
    """The file itself, whatever its name; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def find_name(path: Path) -> Path:
    """The one name of a store, whatever links lead to it: log and lock are beside that name.

    Raises ValueError where it has several names (hard links) and that one is gone.
    """
    real = path.resolve()
    if not real.is_file() or real.stat().st_nlink == 1:
        return real
    with closing(look_at(real)) as connection:
        try:
            name = Path(Store(connection, path).fact("path") or real)
        except sqlite3.Error:
            return real  # no store, as opening it will say
    if not name.exists() or not name.samefile(real):
        raise ValueError(
            f"{path} has several names (hard links), and was last written to as {name}, where it "
            "is not; SQLite needs one: copy it to a file of its own"
        )
    return name


@contextmanager
def _refuse_others(path: Path) -> Iterator[None]:
    """ValueError for files that are no databases, or have no such tables."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorname not in ("SQLITE_NOTADB", "SQLITE_ERROR"):
            raise
        raise _no_store(path, str(error)) from error


def _no_store(path: Path, why: str) -> ValueError:
    return ValueError(
        f"{path} is no store of a campaign, or one that was never finished ({why}); choose another "
        "file, or remove it and make the campaign again"
    )


def _checksum_fact(name: str, text: str) -> int:
    return zlib.crc32(f"{name}={text}".encode())


def _checksum_run(
    name: bytes, state: str, attempts: int, seconds: float | None, y: bytes | None
) -> int:
    about = f"{state} {attempts} {seconds!r}".encode()
    return zlib.crc32(y or b"", zlib.crc32(about, zlib.crc32(name)))


def _is_whole(row: tuple[Any, ...]) -> bool:
    """Whether a run, which begins with the columns _CHECKED, is as it was written."""
    try:
        return _checksum_run(*row[:5]) == row[5]
    except TypeError:  # bytes where there was text
        return False


def _row(run: Run, outcome: Outcome, attempts: int) -> tuple[Any, ...]:
    inputs = (run.theta, run.u) if run.place is None else (None, None)
    seconds = outcome.seconds
    seconds = None if seconds is None or not np.isfinite(seconds) else float(seconds)
    end = (outcome.state, seconds, attempts, outcome.host, outcome.error, outcome.y)
    checksum = _checksum_run(run.digest, outcome.state, attempts, seconds, outcome.y)
    return (run.digest, run.place, *end, *inputs, checksum)
