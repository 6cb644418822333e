"""Writing a `.tar.zst` whose bytes follow from its content alone: names sorted, times, owners and modes fixed, one thread.

Files are streamed, so memory does not grow with them, and hashed on the way: one that is not what its entry says ends the work.
"""

import hashlib
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO

from smelt.archive.entry import Entry
from smelt.plan.errors import DataError

MTIME = 315_532_800
"""1980-01-01: the earliest time that zip, too, can hold, so that files which are packed again keep it."""


def write(path: Path, prefix: str, entries: Iterable[Entry], level: int, told: Callable[[int], None]) -> None:
    """All entries under the folder `prefix`. `told` is called with the bytes of each block.

    Raises:
        DataError: naming the file whose content differs from its sha256.
    """
    import zstandard

    compressor = zstandard.ZstdCompressor(level=level, threads=0, write_checksum=True)
    with (
        path.open("wb") as raw,
        compressor.stream_writer(raw, closefd=False) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT, encoding="utf-8") as tar,
    ):
        for entry in sorted(entries, key=lambda entry: entry.name):
            with entry.open() as file:
                source = _Hashing(file, told)
                try:
                    tar.addfile(_about(prefix, entry), source)
                except OSError as error:
                    raise DataError(f"{entry.source}: could not be read or packed ({error})") from error
                if source.digest.hexdigest() != entry.sha256:
                    raise DataError(
                        f"{entry.source if isinstance(entry.source, Path) else entry.name}: its content differs from its sha256: altered, "
                        "or still changing; remove its node's manifest, so that snakemake makes the node again"
                    )


def _about(prefix: str, entry: Entry) -> tarfile.TarInfo:
    about = tarfile.TarInfo(f"{prefix}/{entry.name}")
    about.size, about.mtime = entry.size, MTIME
    about.mode = 0o755 if entry.executable else 0o644
    about.uid = about.gid = 0
    about.uname = about.gname = ""
    return about


class _Hashing:
    """A file that is hashed as it is read."""

    def __init__(self, file: BinaryIO, told: Callable[[int], None]) -> None:
        self.file, self.told, self.digest = file, told, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        block = self.file.read(size)
        self.digest.update(block)
        self.told(len(block))
        return block
