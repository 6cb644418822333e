"""Compressed streams, told by their first bytes and read without unpacking to disk.

A stream that ends too early is an error with every format; zstandard's own reader takes it for the end of the file.
"""

import bz2
import functools
import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO

from smelt.plan.errors import DataError

CHUNK = 1 << 18
"""Bytes read at once."""
PEEKED = 1024
"""Bytes looked at to tell a format: a tar header is 512."""


class _Pieces(io.RawIOBase):
    """A readable stream of the pieces that a function returns until it returns b""."""

    def __init__(self, next_piece: Callable[[], bytes]) -> None:
        self._next, self._piece, self._position = next_piece, b"", 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._position == len(self._piece):
            self._piece, self._position = self._next(), 0
        view = memoryview(buffer).cast("B")
        count = min(len(view), len(self._piece) - self._position)
        view[:count] = self._piece[self._position : self._position + count]
        self._position += count
        return count


def stream_of(next_piece: Callable[[], bytes]) -> io.BufferedReader:
    """A buffered stream over the pieces that `next_piece` returns; b"" is its end."""
    return io.BufferedReader(_Pieces(next_piece), CHUNK)


def peekable(stream: BinaryIO) -> io.BufferedReader:
    """`stream` with `peek`."""
    return stream if isinstance(stream, io.BufferedReader) else stream_of(lambda: stream.read(CHUNK))


def compression_of(start: bytes) -> str | None:
    """gz, bz2, xz, zst, or None."""
    if start[:3] == b"\x1f\x8b\x08":
        return "gz"
    if start[:3] == b"BZh" and start[4:10] in (b"\x31\x41\x59\x26\x53\x59", b"\x17\x72\x45\x38\x50\x90"):
        return "bz2"
    if start[:6] == b"\xfd7zXZ\x00":
        return "xz"
    if start[:4] == b"\x28\xb5\x2f\xfd":
        return "zst"
    return None


def unpacked(stream: BinaryIO, name: str) -> io.BufferedReader:
    """`stream` unpacked if it is compressed, else as it is. Reading raises DataError naming `name` if it is cut off or damaged."""
    source = peekable(stream)
    kind = compression_of(source.peek(PEEKED)[:PEEKED])
    if kind is None:
        return source
    if kind == "zst":
        read = _zstd_reader(source)
    else:
        opened = {"gz": gzip.open, "bz2": bz2.open, "xz": lzma.open}[kind](source)
        read = functools.partial(opened.read, CHUNK)
    return stream_of(_telling(read, name, kind))


def _telling(read: Callable[[], bytes], name: str, kind: str) -> Callable[[], bytes]:
    import zstandard

    def next_piece() -> bytes:
        try:
            return read()
        except EOFError:
            raise DataError(
                f"{name}: cut off: the {kind} data end before their end mark; fetch or make the file again"
            ) from None
        except (OSError, lzma.LZMAError, zlib.error, zstandard.ZstdError) as error:
            raise DataError(f"{name}: damaged {kind} data ({error}); fetch or make the file again") from None

    return next_piece


def _zstd_reader(source: BinaryIO) -> Callable[[], bytes]:
    """Pieces of all frames, one after the other. Raises EOFError inside a frame that doesn't end."""
    import zstandard

    decompressor, frame, rest = zstandard.ZstdDecompressor(), None, b""

    def next_piece() -> bytes:
        nonlocal frame, rest
        while True:
            data = rest or source.read(CHUNK)
            rest = b""
            if not data:
                if frame is not None:
                    raise EOFError
                return b""
            frame = frame or decompressor.decompressobj()
            piece = frame.decompress(data)
            if frame.eof:
                rest, frame = frame.unused_data, None
            if piece:
                return piece

    return next_piece
