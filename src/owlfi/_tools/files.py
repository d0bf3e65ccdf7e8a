"""Files that are written whole, or not at all."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


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
