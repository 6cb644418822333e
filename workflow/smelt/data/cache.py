"""Downloads by content: `$SMELT_CACHE/downloads/<checksum>` (default `~/.cache/smelt`), shared by all jobs of a user or of a group.

A file appears under its checksum only when it is whole, and is checked each time it is used. A lock keeps two jobs from
fetching the same file twice; what a killed download left is gone on with.
"""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import filelock

from smelt.data.storage import storing
from smelt.plan.job import Job

SECONDS_BETWEEN_NOTICES = 30


@dataclass(frozen=True)
class Expected:
    """What a file has to be."""

    digests: dict[str, str]
    """Algorithm → hex digest; at least one."""
    size: int | None = None
    """Bytes, if known."""

    @property
    def key(self) -> str:
        """Name in the cache: the sha256, or another checksum with its algorithm before it."""
        algorithm, digest = next(iter(self.digests.items()))
        return digest if algorithm == "sha256" else f"{algorithm}-{digest}"

    def problem(self, path: Path) -> str | None:
        """How `path` differs, or None."""
        size = path.stat().st_size
        if self.size is not None and size != self.size:
            return f"has {size:,} bytes, the settings say size={self.size:,}"
        for algorithm, digest in self.digests.items():
            with path.open("rb") as file:
                found = hashlib.file_digest(file, algorithm).hexdigest()
            if found != digest:
                return f"has {algorithm} {found}, the settings say {digest}"
        return None


def folder() -> Path:
    """Where downloads are kept."""
    root = os.environ.get("SMELT_CACHE")
    return (Path(root).expanduser() if root else Path.home() / ".cache" / "smelt") / "downloads"


def cached(expected: Expected, name: str, fetch: Callable[[Path], None], job: Job) -> Path:
    """The file with these checksums; `fetch(part)` brings it, going on with what is in `part`, if it isn't there yet.

    Raises what `fetch` raises, and StorageError if the cache can't be written.
    """
    path = folder() / expected.key
    if path.is_file() and expected.problem(path) is None:
        return path
    with storing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = _locked(path.with_name(f"{path.name}.lock"), name, job)
    try:
        if path.is_file():
            problem = expected.problem(path)
            if problem is None:
                return path
            job.say(f"{name}: the copy in the cache {problem}; fetching it again")
            path.unlink()
        part = path.with_name(f"{path.name}.part")
        fetch(part)
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(path)
        return path
    finally:
        lock.release()


def _locked(path: Path, name: str, job: Job) -> filelock.BaseFileLock:
    """Waits as long as another job fetches: the kernel frees the lock when that job ends, however it ends."""
    lock = filelock.FileLock(path)
    while True:
        try:
            lock.acquire(timeout=SECONDS_BETWEEN_NOTICES, poll_interval=0.2)
            return lock
        except filelock.Timeout:
            job.say(f"{name}: another job is fetching it; waiting")
