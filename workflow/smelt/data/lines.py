"""Lines and whole texts from byte streams; what can't be decoded is an error that names file, line and byte."""

from collections.abc import Iterator
from typing import BinaryIO

from smelt.plan.errors import DataError

LONGEST_LINE = 256 << 20
"""Bytes; a longer line is taken for a wrong format, since it would have to be held in memory several times over."""
LONGEST_TEXT = 2 << 30
"""Bytes of a file that is read as a whole."""
MARK = "\ufeff"
"""Byte order mark: some editors put it at the start of a file; it is no part of the text."""


def read_lines(stream: BinaryIO, name: str, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """(number from 1, line without its end). Ends are `\\n`, with a `\\r` before it taken along. Raises DataError."""
    number, offset = 0, 0
    while data := stream.readline(LONGEST_LINE):
        number += 1
        if len(data) == LONGEST_LINE:
            raise DataError(
                f"{name}:{number}: a line of more than {LONGEST_LINE:,} bytes; check that the format is right"
            )
        line = decoded(data, name, encoding, number, offset)
        offset += len(data)
        if number == 1:
            line = line.removeprefix(MARK)
        yield number, line.removesuffix("\n").removesuffix("\r")


def read_text(stream: BinaryIO, name: str, encoding: str = "utf-8") -> str:
    """All of a stream. Raises DataError."""
    data = stream.read(LONGEST_TEXT)
    if len(data) == LONGEST_TEXT:
        raise DataError(
            f"{name}: more than {LONGEST_TEXT:,} bytes, too much to read as one text; use a format that is read line by line"
        )
    return decoded(data, name, encoding).removeprefix(MARK)


def decoded(data: bytes, name: str, encoding: str, line: int = 1, offset: int = 0) -> str:
    """`data`, which begins at `line` and byte `offset` of the file. Raises DataError naming the byte that doesn't fit."""
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line += data[: error.start].count(b"\n")
        raise DataError(
            f"{name}:{line}: byte {data[error.start]:#04x} at offset {offset + error.start:,} is not {encoding.upper()}; "
            f"set the source's `encoding`, or mend the file"
        ) from None
