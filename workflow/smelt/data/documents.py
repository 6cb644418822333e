"""Documents on disk: zstd-compressed JSON lines, one object a line, UTF-8, `\\n` the only line break.

Equal rows give equal bytes: one thread, a fixed level, no time in the frame. A checksum in the frame shows damage.
"""

import contextlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self

from smelt.data import compression
from smelt.data.lines import read_lines
from smelt.data.storage import storing
from smelt.plan.errors import DataError

LEVEL = 3
"""zstd's default: on text four times as fast to write as 10, for files a tenth larger."""


class DocumentWriter:
    """`with DocumentWriter(path) as writer: writer.write(row)`. The file is whole once the block is left without an error."""

    def __init__(self, path: Path) -> None:
        import zstandard

        self.path = path
        self.rows = 0
        with storing(path):
            self._file = path.open("wb")
        compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
        self._stream = compressor.stream_writer(self._file, closefd=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            if kind is None:
                with storing(self.path):
                    self._stream.close()
                    self._file.flush()
        finally:
            # Without an error all is flushed by now; after one, what the buffer still holds has no place to go.
            with contextlib.suppress(OSError):
                self._file.close()

    def write(self, row: dict[str, Any]) -> None:
        """Raises StorageError when the disk is full, ValueError for a number that JSON has not."""
        line = json.dumps(row, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"
        with storing(self.path):
            self._stream.write(line)
        self.rows += 1


def write_documents(path: Path, rows: Iterable[dict[str, Any]]) -> int:
    """Write all rows; returns how many."""
    with DocumentWriter(path) as writer:
        for row in rows:
            writer.write(row)
    return writer.rows


def read_documents(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file, one after the other. Raises DataError naming file and line for what is cut off, damaged or no object."""
    with path.open("rb") as file:
        for number, line in read_lines(compression.unpacked(file, str(path)), str(path)):
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise DataError(f"{path}:{number}: not JSON ({error}); make the file again") from None
            if not isinstance(row, dict):
                raise DataError(f"{path}:{number}: {line[:40]!r} is not an object; make the file again")
            yield row
