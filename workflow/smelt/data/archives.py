"""Files inside zip and tar archives, read one after the other without unpacking to disk.

Nothing is ever written under a name from an archive. A member whose name leads out of the archive marks it as hostile: it is
refused as a whole. Links are refused, sizes are bounded.
"""

import contextlib
import difflib
import functools
import io
import lzma
import re
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from smelt.data.compression import CHUNK, PEEKED, peekable, stream_of, unpacked
from smelt.data.storage import storing
from smelt.plan.errors import DataError
from smelt.plan.settings.source import excluded

IN_MEMORY = 64 << 20
"""Bytes of an archive inside an archive that are held in memory; a larger one goes to a temporary file."""


@dataclass(frozen=True)
class Wanted:
    """What is to be read: names or globs, outermost archive first; globs to leave out; the bound on unpacked bytes."""

    members: list[str]
    exclude: list[str]
    max_bytes: int


@dataclass(frozen=True)
class Entry:
    """One file to read. `stream` is good until the next entry is asked for."""

    name: str
    """Name inside the innermost archive, or of the file itself."""
    place: str
    """For messages: the names that lead there, with ` → ` between."""
    stream: BinaryIO
    encoding: str = "utf-8"
    """Of the text in it."""


class _Budget:
    """Counts what comes out of an archive, over all members. Raises DataError once it is more than allowed."""

    def __init__(self, place: str, limit: int) -> None:
        self.place, self.limit, self.used = place, limit, 0

    def spend(self, count: int) -> None:
        self.used += count
        if self.used > self.limit:
            raise DataError(
                f"{self.place}: unpacks to more than max_unpacked_bytes={self.limit:,}; "
                "raise that key if the source is meant to be so large, else the file is a decompression bomb"
            )

    def watch(self, read: Callable[[int], bytes]) -> io.BufferedReader:
        def next_piece() -> bytes:
            piece = read(CHUNK)
            self.spend(len(piece))
            return piece

        return stream_of(next_piece)


def entries(stream: BinaryIO, name: str, wanted: Wanted, place: str) -> Iterator[Entry]:
    """The files of `stream` (named `name`) that are wanted, in the order of the archive. Raises DataError."""
    yield from _entries(stream, name, wanted.members, wanted.exclude, place, _Budget(place, wanted.max_bytes))


def _entries(
    stream: BinaryIO, name: str, members: list[str], exclude: list[str], place: str, budget: _Budget
) -> Iterator[Entry]:
    outer = peekable(stream)
    if _is_zip(outer.peek(PEEKED)):
        kind, listed = "zip", _zip_members(outer, place, budget)
    else:
        outer = _unpacked_within(outer, place, budget)
        kind, listed = ("tar", _tar_members(outer, place)) if _is_tar(outer.peek(PEEKED)[:PEEKED]) else ("", None)
    if listed is None:
        if members:
            raise DataError(
                f"{place}: is no zip or tar archive, so it has no member {members[0]!r}; leave `member` out"
            )
        yield Entry(name, place, outer)
        return
    if not members:
        raise DataError(
            f"{place}: is a {kind} archive; name the file to read in `member` (a glob such as '*.txt' takes several)"
        )
    last, found, others = len(members) == 1, False, []
    for inner_name, inner in _picked(listed, place, members[0], exclude if last else [], others):
        found = True
        inner_place = f"{place} → {inner_name}"
        if last:
            yield Entry(inner_name, inner_place, _unpacked_within(peekable(inner), inner_place, budget))
        else:
            yield from _entries(inner, inner_name, members[1:], exclude, inner_place, budget)
    if not found:
        raise DataError(f"{place}: has no member {members[0]!r}{_nearest(members[0], others)}")


def _unpacked_within(source: io.BufferedReader, place: str, budget: _Budget) -> io.BufferedReader:
    """`source`, unpacked as far as the budget allows if it is compressed."""
    result = unpacked(source, place)
    return source if result is source else budget.watch(result.read)


def _is_zip(start: bytes) -> bool:
    return start[:4] in (b"PK\x03\x04", b"PK\x05\x06")


def _is_tar(start: bytes) -> bool:
    return start[257:262] == b"ustar" or _has_old_tar_header(start[:512])


def _has_old_tar_header(header: bytes) -> bool:
    """A header from before `ustar` is told by its checksum alone."""
    if len(header) < 512 or not header[0]:
        return False
    try:
        tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


Member = tuple[str, str | None, Callable[[], BinaryIO]]
"""(name, why it can't be read or None, opener)"""


def _zip_members(stream: BinaryIO, place: str, budget: _Budget) -> Iterator[Member]:
    """A zip is read from its end, so it has to be a file: a stream is copied first."""
    with contextlib.ExitStack() as stack:
        file = stream if stream.seekable() else stack.enter_context(_copied(stream))
        try:
            archive = stack.enter_context(zipfile.ZipFile(file))
        except (zipfile.BadZipFile, OSError) as error:
            raise DataError(f"{place}: damaged or cut off ({error}); fetch the file again") from None
        for info in archive.infolist():
            if not info.is_dir():
                problem = (
                    "is a link"
                    if (info.external_attr >> 16) & 0o170000 == 0o120000
                    else "is encrypted"
                    if info.flag_bits & 1
                    else None
                )
                yield info.filename, problem, functools.partial(_zip_stream, archive, info, place, budget)


def _zip_stream(archive: zipfile.ZipFile, info: zipfile.ZipInfo, place: str, budget: _Budget) -> BinaryIO:
    def telling(read: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return read(*arguments)
        except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, OSError) as error:
            raise DataError(
                f"{place} → {info.filename}: damaged or of a compression not known here ({error}); fetch the file again"
            ) from None

    opened = telling(archive.open, info)
    return budget.watch(functools.partial(telling, opened.read))


def _copied(stream: BinaryIO) -> tempfile.SpooledTemporaryFile[bytes]:
    file = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 - the caller closes it
    with storing(Path(tempfile.gettempdir())):
        shutil.copyfileobj(stream, file, CHUNK)
    file.seek(0)
    return file


def _tar_members(stream: BinaryIO, place: str) -> Iterator[Member]:
    """What is read of a tar was counted when its compression was undone; a tar itself is never larger than its members."""
    try:
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for info in archive:
                if info.isdir():
                    continue
                problem = None if info.isreg() else "is a link" if info.issym() or info.islnk() else "is no plain file"
                yield info.name.removeprefix("./"), problem, functools.partial(_tar_stream, archive, info, place)
    except tarfile.TarError as error:
        raise DataError(f"{place}: damaged or cut off ({error}); fetch the file again") from None


def _tar_stream(archive: tarfile.TarFile, info: tarfile.TarInfo, place: str) -> BinaryIO:
    opened = archive.extractfile(info)
    left = info.size

    def next_piece() -> bytes:
        nonlocal left
        try:
            piece = opened.read(min(CHUNK, left)) if left else b""
        except tarfile.TarError:
            piece = b""
        if left and not piece:
            raise DataError(f"{place} → {info.name}: cut off, up to {left:,} bytes are missing; fetch the file again")
        left -= len(piece)
        return piece

    return stream_of(next_piece)


def _picked(
    members: Iterator[Member], place: str, pattern: str, exclude: list[str], others: list[str]
) -> Iterator[tuple[str, BinaryIO]]:
    """The members that `pattern` means; the names of all others go to `others`. Raises DataError for what must not be read."""
    seen: set[str] = set()
    for name, problem, opener in members:
        if ".." in name.replace("\\", "/").split("/") or re.match(r"[/\\]|[A-Za-z]:", name):
            raise DataError(
                f"{place}: holds {name!r}, a name that leads out of the archive; it is not used: get it from a source that can be trusted"
            )
        if excluded(name, exclude) or not excluded(name, [pattern]):
            others.append(name)
            continue
        if problem:
            raise DataError(f"{place} → {name}: {problem} and can't be read; name another `member`")
        if name in seen:
            raise DataError(f"{place} → {name}: is there twice; unpack the archive by hand and use `kind: file`")
        seen.add(name)
        yield name, opener()


def _nearest(name: str, others: list[str]) -> str:
    near = difflib.get_close_matches(name, others, n=3, cutoff=0.5)
    last = PurePosixPath(name).name
    near += [other for other in others if PurePosixPath(other).name == last and other not in near][:3]
    if near:
        return f"; the nearest are {', '.join(map(repr, near[:3]))}"
    shown = ", ".join(map(repr, others[:5])) or "no file at all"
    return f"; it holds {shown}{' …' if len(others) > 5 else ''}"
