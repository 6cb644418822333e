"""Errors of the disk where a file is written, told so that a person knows what to do."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from smelt.plan.errors import storage_error


@contextlib.contextmanager
def storing(path: Path) -> Iterator[None]:
    """Raises StorageError naming `path` for a disk that is full or can't be written to; every other error passes."""
    try:
        yield
    except OSError as error:
        # Not by way of a name: the frame would hold the error, the error the frame, and both what is open in it.
        raise storage_error(error, path) or error from None
