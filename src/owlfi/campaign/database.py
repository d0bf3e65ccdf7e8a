"""The SQLite file of a store: made whole or not at all, and readable wherever it lies."""

import errno
import glob
import os
import shutil
import socket
import sqlite3
import sys
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

_MOUNTS = Path("/proc/mounts")
_NETWORK = ("nfs", "cifs", "smb", "lustre", "gpfs", "beegfs", "ceph", "afs", "fuse.sshfs", "9p")
_PATIENCE = 60.0  # seconds for another process to make the same file
_NO_PLACE = ("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_IOERR_SHM")
_REMEDIES = {  # by the beginning of SQLite's name of an error
    "SQLITE_FULL": "make room on the disk: what had ended is kept, and the same call goes on",
    "SQLITE_CORRUPT": "it is damaged; `owlfi campaign check` tells how far, a copy helps",
    "SQLITE_NOTADB": "it is no store of a campaign, or its first bytes are damaged",
    "SQLITE_READONLY": "copy it to a folder that can be written to",
}


class StoreError(OSError):
    """The file of a store cannot be read or written."""


class StoreExistsError(ValueError):
    """There is a file where a store is to be made."""


@contextmanager
def explain_errors(path: Path) -> Iterator[None]:
    """SQLite's errors, and folders closed to us, with the file and what to do about them."""
    try:
        yield
    except PermissionError as error:
        where = "" if error.filename in (None, str(path)) else f" ({error.filename})"
        raise StoreError(f"{path}: {error.strerror}{where}; ask its owner for access") from error
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", None) or ""
        known = [remedy for start, remedy in _REMEDIES.items() if name.startswith(start)]
        remedy = known[0] if known else "what had ended before is kept, and the same call goes on"
        raise StoreError(f"{path}: {error}; {remedy}") from error


def lock_of(path: Path) -> FileLock:
    """The lock of whoever writes to a file, beside it."""
    return FileLock(f"{path}.lock")


@contextmanager
def hold_file(path: Path) -> Iterator[None]:
    """The file itself, also where it was moved away from its lock; Timeout while another holds it.

    By a name that Linux forgets with the process: closing a lock on the file drops SQLite's own.
    """
    if sys.platform != "linux" or not path.exists():
        yield
        return
    place = path.stat()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as holder:
        try:
            holder.bind(f"\0owlfi-store-{place.st_dev:x}-{place.st_ino:x}")
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise Timeout(str(path)) from error
        yield


def create_file(path: Path, fill: Callable[[sqlite3.Connection], None]) -> None:
    """A new database that `fill` has written to, or none at all.

    Raises ValueError where its folder does not exist, StoreExistsError where the file does, also
    where another process has made it meanwhile.
    """
    if not path.parent.is_dir():
        raise ValueError(f"the folder {path.parent} of the store does not exist; create it")
    if path.exists():
        raise _exists(path)
    with lock_of(path).acquire(timeout=_PATIENCE):
        _check_free(path)
        mark = f".{path.name}.new-"
        for remains in path.parent.glob(f"{glob.escape(mark)}*"):  # of those that were killed
            remains.unlink()
        unfinished = path.with_name(f"{mark}{uuid.uuid4().hex}")
        try:
            with explain_errors(path), closing(connect(unfinished)) as connection:
                fill(connection)
            _link(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)


def _check_free(path: Path) -> None:
    if path.exists():
        raise _exists(path)
    for log in (Path(f"{path}{end}") for end in ("-wal", "-journal")):
        if log.exists():
            raise ValueError(
                f"{log} is the log of a store that is not there, and may hold runs; move both "
                "together, or remove it"
            )


def _exists(path: Path) -> StoreExistsError:
    return StoreExistsError(
        f"{path} exists; open it with Campaign.open, or exist_ok=True where it is the same "
        "campaign, or choose another name"
    )


def _link(unfinished: Path, path: Path) -> None:
    """Give a file its name, never one that another file has."""
    try:
        os.link(unfinished, path)
    except FileExistsError:
        raise _exists(path) from None
    except OSError:  # a file system without links: the lock alone protects
        _check_free(path)
        unfinished.rename(path)


def connect(path: Path) -> sqlite3.Connection:
    """To write to a file, which is made where there is none."""
    connection = _open(path, "rwc")
    network = network_file_system(path)
    if network:
        warnings.warn(
            f"{path} is on a network file system ({network}); open it from one machine only, "
            "or keep it on a local disk",
            stacklevel=2,
        )
    # The write-ahead log needs memory shared by all readers, so one machine.
    connection.execute(f"PRAGMA journal_mode = {'DELETE' if network else 'WAL'}")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def connect_to_read(path: Path) -> sqlite3.Connection:
    """To read from a file, also where nothing can be written beside it, or the disk is full."""
    # What only reads still tidies the log away where it may.
    for mode in ("rw", "ro") if os.access(path, os.W_OK) else ("ro",):
        connection = _open(path, mode)
        try:
            connection.execute("PRAGMA query_only = ON")
            connection.execute("SELECT name FROM sqlite_schema").fetchone()
        except sqlite3.OperationalError as error:
            connection.close()
            if not error.sqlite_errorname.startswith(_NO_PLACE):  # for the index of the log
                raise
        else:
            return connection
    log = Path(f"{path}-wal")
    return _open_copy(path, log) if log.exists() and log.stat().st_size else look_at(path)


def look_at(path: Path) -> sqlite3.Connection:
    """The file alone, without log and locks."""
    return _open(path, "ro&immutable=1")


def _open_copy(path: Path, log: Path) -> sqlite3.Connection:
    """A copy with what its log has, which goes when it is closed."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        shutil.copyfile(path, copy)
        shutil.copyfile(log, f"{copy}-wal")
        connection = _open(copy, "rw")
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("SELECT name FROM sqlite_schema").fetchone()
    return connection


def _open(path: Path, mode: str) -> sqlite3.Connection:
    """mode: as in SQLite's addresses."""
    address = f"{path.resolve().as_uri()}?mode={mode}"
    connection = sqlite3.connect(address, uri=True, isolation_level=None, timeout=60)
    connection.execute("PRAGMA trusted_schema = OFF")
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
