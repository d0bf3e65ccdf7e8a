"""Files that are written whole, or not at all, and arrays of files that fit in memory."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from owlfi._tools.checks import check_memory


@contextmanager
def write_whole(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which takes its name at the end; what had the name stays until then.

    Raises OSError that names the file where it cannot be written, and leaves nothing behind.
    """
    target = Path(os.path.realpath(path))  # a link stays one
    unfinished = target.with_name(f".owlfi-{uuid.uuid4().hex}")
    try:
        with unfinished.open("xb") as file:
            yield file
        unfinished.replace(target)
    except OSError as error:
        raise OSError(
            f"{path} cannot be written ({error.strerror or error}); name a folder with room "
            "that you may write to"
        ) from error
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


@contextmanager
def open_arrays(path: Path) -> Iterator[Any]:
    """The arrays of an NPZ file by name; nothing in it is executed.

    Raises ValueError where they would not fit in memory: a small file may unfold to many.
    """
    with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
        unfolded = sum(entry.file_size for entry in file.zip.infolist())
        check_memory(f"the arrays of {path}", unfolded // 8)
        yield file
