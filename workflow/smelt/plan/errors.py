"""The few errors that smelt raises for a person to read. Each message names the place, the value and the way out."""

import errno
from pathlib import Path


class SmeltError(Exception):
    """Something a person can mend. The command line prints the message alone and exits with `exit_code`."""

    exit_code = 1


class ConfigError(SmeltError):
    """All that is wrong with the configuration, reported at once: one problem a line, each with file, key path and value."""

    exit_code = 2

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        super().__init__(f"{count} in the configuration:\n" + "\n".join(f"  {problem}" for problem in problems))


class DataError(SmeltError):
    """Input that can't be used: a file that is missing, cut off, altered, empty or not what it says it is."""


class LockedError(SmeltError):
    """Another process works in the same folder; the message names its host and pid."""

    exit_code = 73


class Interrupted(SmeltError):
    """Stopped by a signal or by the time budget after the state was saved: running again goes on from there."""

    exit_code = 75  # EX_TEMPFAIL of sysexits.h: try again


class UnexpectedError(SmeltError):
    """A failure that smelt did not foresee, whose traceback stands in the job's log."""

    exit_code = 70  # EX_SOFTWARE


class StorageError(SmeltError):
    """A disk that is full or can't be written."""

    exit_code = 74  # EX_IOERR


_REMEDIES = {
    errno.ENOSPC: "make room there, or use another --directory",
    errno.EDQUOT: "make room there, or use another --directory",
    errno.EFBIG: "allow larger files there, or use another --directory",
    errno.EIO: "see whether the disk is full or fails, or use another --directory",  # what LMDB says of a full disk
    errno.EROFS: "mount it so that it can be written, or use another --directory",
    errno.EACCES: "mend its permissions, or use another --directory",
    errno.EPERM: "mend its permissions, or use another --directory",
    errno.ENOTDIR: "a file stands where a folder is wanted; move it away, or use another --directory",
    errno.EEXIST: "it is in the way; move it away, or use another --directory",
    errno.ENAMETOOLONG: "choose shorter names, or use another --directory",
}


def storage_error(error: OSError, path: Path | None = None) -> StorageError | None:
    """What a person can do about an error of the operating system; None if that is unknown.

    `path` is what was being written: a write that fails does not tell its file.
    """
    if error.errno not in _REMEDIES:
        return None
    return StorageError(f"{error.filename or path or 'writing'}: {error.strerror}; {_REMEDIES[error.errno]}")
