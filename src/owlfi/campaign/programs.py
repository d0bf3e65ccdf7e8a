"""Programs that are run in folders of their own, and nothing of which remains.

Each process that runs programs has a folder, locked for as long as it lives. What it leaves when it
is killed, folders and programs, is removed by the next process that runs any.
"""

import atexit
import os
import selectors
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from filelock import FileLock, Timeout

MOST_OUTPUT = 64 * 2**20
"""Bytes that a program may write as its y."""
_MOST_ERRORS = 2**16  # bytes of standard error that are kept, the last
_PREFIX = "owlfi-run-"
_NAME = "OWLFI_RUN"  # in the environment of programs and their children: whose they are
_PROCESSES = Path("/proc")
_LOOK = 0.05  # seconds between looks at a program whose output is kept open
_FOLDER_LOCK = threading.Lock()
_RUNNING: set[subprocess.Popen] = set()


class TimeLimitError(Exception):
    """A run that took longer than its time limit."""


class CrashError(Exception):
    """A run whose process was killed."""


@contextmanager
def own_folder() -> Iterator[Path]:
    """An empty folder for one run; when it ends, the folder goes and what runs in it is killed."""
    with _FOLDER_LOCK:
        folder = Path(tempfile.mkdtemp(dir=_process_folder()[0]))
    try:
        yield folder
    finally:
        _remove(folder)


def run_program(arguments: list[str], folder: Path, time_limit: float | None) -> str:
    """The standard output of a program that ends well; children that it leaves are killed.

    Raises TimeLimitError, CrashError where a signal ended it, RuntimeError for another status than
    0 and for more than MOST_OUTPUT bytes.
    """
    with subprocess.Popen(
        arguments,
        cwd=folder,
        env=os.environ | {_NAME: str(folder)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # so that its children can be killed with it
    ) as process:
        _RUNNING.add(process)
        try:
            output, errors = _collect_output(process, time_limit)
        finally:
            _kill_group(process)
            _RUNNING.discard(process)
    told = f"read its standard error: {errors.decode(errors='replace')}"
    if process.returncode < 0:
        raise CrashError(f"killed by signal {-process.returncode}; {told}")
    if process.returncode:
        raise RuntimeError(f"exit status {process.returncode}; {told}")
    return output.decode(errors="replace")


def kill_programs() -> None:
    """End the programs that this process has started, with their children and folders."""
    for process in list(_RUNNING):
        _kill_group(process)
    if _process_folder.cache_info().currsize:
        _remove(_process_folder()[0])


def _collect_output(
    process: subprocess.Popen, time_limit: float | None
) -> tuple[bytearray, bytearray]:
    """What a program writes until it ends, whoever keeps its output open after that."""
    end = None if time_limit is None else time.monotonic() + time_limit
    output, errors = bytearray(), bytearray()
    with selectors.DefaultSelector() as selector:
        for pipe, text in ((process.stdout, output), (process.stderr, errors)):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            selector.register(pipe, selectors.EVENT_READ, text)
        while selector.get_map():
            ended = process.poll() is not None  # before reading: what it wrote is there
            ready = selector.select(0 if ended else _LOOK)
            for key, _ in ready:
                _read_some(selector, key)
            del errors[:-_MOST_ERRORS]
            if len(output) > MOST_OUTPUT:
                raise RuntimeError(
                    f"the program printed more than {MOST_OUTPUT:,} bytes; print y alone"
                )
            if end is not None and time.monotonic() > end:
                break
            if ended and not ready:
                return output, errors
    try:
        process.wait(None if end is None else max(0.0, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        told = errors.decode(errors="replace")
        raise TimeLimitError(
            f"longer than {time_limit} s; allow more, or read its standard error: {told}"
        ) from None
    return output, errors


def _read_some(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    chunk = os.read(key.fd, 2**16)
    if chunk:
        key.data.extend(chunk)
    else:
        selector.unregister(key.fileobj)


def _kill_group(process: subprocess.Popen) -> None:
    with suppress(ProcessLookupError, PermissionError):  # it ended by itself
        os.killpg(process.pid, signal.SIGKILL)


@cache
def _process_folder() -> tuple[Path, FileLock]:
    """The folder of this process, with the lock that says that it lives."""
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    lock = _lock_of(folder)
    lock.acquire()
    for other in folder.parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            _remove_if_left(other, folder.stat().st_uid)
    atexit.register(kill_programs)
    return folder, lock


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_process_folder.cache_clear)


def _lock_of(folder: Path) -> FileLock:
    return FileLock(folder / "lock", blocking=False, thread_local=False)


def _remove_if_left(folder: Path, owner: int) -> None:
    """Unless its process lives, or it is nobody's: another user's, a link, or without a lock."""
    found = folder.lstat()
    if found.st_uid != owner or not stat.S_ISDIR(found.st_mode):
        return
    if (folder / "lock").exists():
        with suppress(Timeout), _lock_of(folder):
            _remove(folder)
    elif time.time() - found.st_mtime > 1:  # else it may not have been locked yet
        folder.rmdir()  # where it is empty


def _remove(folder: Path) -> None:
    """A folder, and the processes that were started in it."""
    for _ in range(10):  # as others may be started meanwhile
        found = list(_find_processes(folder))
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            break
        time.sleep(0.01)
    shutil.rmtree(folder, ignore_errors=True)


def _find_processes(folder: Path) -> Iterator[int]:
    """Those that work in a folder, or were started for it, children and daemons included."""
    mark = f"{_NAME}={folder}".encode()
    for entry in _PROCESSES.glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            started = mark in (entry / "environ").read_bytes()
            if started or Path(os.readlink(entry / "cwd")).is_relative_to(folder):
                yield int(entry.name)
