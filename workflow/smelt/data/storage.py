"""Errors of the disk, told so that a person knows what to do."""

import contextlib
import errno
import shutil
from collections.abc import Iterator
from pathlib import Path

from smelt.plan.errors import DataError

_FULL = (errno.ENOSPC, errno.EDQUOT)
_REFUSED = (errno.EROFS, errno.EACCES, errno.EPERM)


@contextlib.contextmanager
def storing(path: Path) -> Iterator[None]:
    """Turns a full or read-only disk into a DataError that names `path`; every other error passes."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise DataError(
                f"{path}: no space left on the disk ({_free(path)} free); make room there or store elsewhere"
            ) from None
        if error.errno in _REFUSED:
            raise DataError(
                f"{path}: can't be written ({error.strerror}); check the permissions of the folder or store elsewhere"
            ) from None
        raise


def _free(path: Path) -> str:
    while not path.exists() and path != path.parent:
        path = path.parent
    return f"{shutil.disk_usage(path).free / 1e6:,.0f} MB"
