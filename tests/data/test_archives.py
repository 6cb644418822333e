"""Archives: the right member, and nothing that an archive could do to the machine."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from smelt.data.archives import Wanted, entries
from smelt.plan.errors import DataError

FILES = {"top/a.txt": b"first", "top/sub/b.txt": b"second", "top/c.md": b"third"}
PLENTY = 1 << 30


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def tarred(files: dict[str, bytes], **options: int) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", **options) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


KINDS: dict[str, Callable[[dict[str, bytes]], bytes]] = {
    "zip": zipped,
    "tar": tarred,
    "tar.gz": lambda files: gzip.compress(tarred(files)),
    "tar.bz2": lambda files: bz2.compress(tarred(files)),
    "tar.xz": lambda files: lzma.compress(tarred(files)),
    "tar.zst": lambda files: zstandard.compress(tarred(files)),
    "tar of 1979": lambda files: bytes(tarred(files, format=tarfile.USTAR_FORMAT)).replace(b"ustar\x0000", b"\0" * 8),
}


def read(data: bytes, *members: str, exclude: tuple[str, ...] = (), limit: int = PLENTY) -> dict[str, bytes]:
    wanted = Wanted(list(members), list(exclude), limit)
    return {entry.name: entry.stream.read() for entry in entries(io.BytesIO(data), "file", wanted, "file")}


def checksummed(data: bytes) -> bytes:
    """Headers of a tar with their checksums made right again."""
    header = bytearray(data[:512])
    header[148:156] = b" " * 8
    header[148:156] = f"{sum(header):06o}\0 ".encode()
    return bytes(header) + data[512:]


@pytest.mark.parametrize("kind", KINDS)
def test_a_member_is_read_by_its_name(kind: str) -> None:
    files = {"top/a.txt": b"first"} if kind == "tar of 1979" else FILES
    data = KINDS[kind](files)
    data = checksummed(data) if kind == "tar of 1979" else data
    assert read(data, "top/a.txt") == {"top/a.txt": b"first"}


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_a_glob_takes_several_members_and_exclude_leaves_some_out(kind: str) -> None:
    assert list(read(KINDS[kind](FILES), "top/*.txt")) == ["top/a.txt", "top/sub/b.txt"]
    assert list(read(KINDS[kind](FILES), "*", exclude=("*/sub/*",))) == ["top/a.txt", "top/c.md"]


@pytest.mark.parametrize("outer", ["zip", "tar", "tar.gz", "tar.zst"])
@pytest.mark.parametrize("inner", ["zip", "tar.gz", "tar.xz"])
def test_a_list_of_members_leads_through_archives_inside_archives(outer: str, inner: str) -> None:
    data = KINDS[outer](
        {"x/other": b"", "x/inner.bin": KINDS[inner]({**FILES, "deep.zip": zipped({"z.txt": b"deep"})})}
    )
    assert read(data, "x/inner.bin", "top/sub/b.txt") == {"top/sub/b.txt": b"second"}
    assert read(data, "x/inner.bin", "deep.zip", "z.txt") == {"z.txt": b"deep"}


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress, zstandard.compress])
def test_compressed_files_and_members_are_unpacked(compress: Callable[[bytes], bytes]) -> None:
    assert read(compress(b"plain text")) == {"file": b"plain text"}
    assert read(zipped({"text.bin": compress(b"plain text")}), "text.bin") == {"text.bin": b"plain text"}


def test_a_name_with_brackets_or_spaces_is_found_as_it_stands() -> None:
    files = {"a [1] $x; 'q' 中文.txt": b"odd", "other.txt": b""}
    assert read(zipped(files), "a [1] $x; 'q' 中文.txt") == {"a [1] $x; 'q' 中文.txt": b"odd"}


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_a_wrong_member_names_the_nearest(kind: str) -> None:
    with pytest.raises(DataError, match=r"has no member 'top/sub/bb.txt'; the nearest are 'top/sub/b.txt'"):
        read(KINDS[kind](FILES), "top/sub/bb.txt")
    with pytest.raises(
        DataError, match=r"has no member 'nothing like it'; it holds 'top/a.txt', 'top/sub/b.txt', 'top/c.md'"
    ):
        read(KINDS[kind](FILES), "nothing like it")


def test_an_archive_without_member_and_a_member_without_archive_are_told() -> None:
    with pytest.raises(DataError, match=r"is a zip archive; name the file to read in `member`"):
        read(zipped(FILES))
    with pytest.raises(DataError, match=r"is a tar archive; name the file to read in `member`"):
        read(gzip.compress(tarred(FILES)))
    with pytest.raises(DataError, match=r"is no zip or tar archive"):
        read(b"plain text", "top/a.txt")


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
@pytest.mark.parametrize("name", ["../evil.txt", "/etc/evil.txt", "a/../../evil.txt", "..\\evil.txt", "C:\\evil.txt"])
def test_an_archive_with_a_name_that_leads_out_of_it_is_refused_as_a_whole(kind: str, name: str) -> None:
    with pytest.raises(DataError, match=r"leads out of the archive"):
        read(KINDS[kind]({"good.txt": b"good", name: b"evil"}), "good.txt")


@pytest.mark.parametrize("link", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_in_a_tar_are_refused(link: bytes) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        info = tarfile.TarInfo("text.txt")
        info.type, info.linkname = link, "/etc/passwd"
        archive.addfile(info)
    with pytest.raises(DataError, match=r"text.txt: is (a link|no plain file)"):
        read(buffer.getvalue(), "text.txt")


def test_links_in_a_zip_are_refused() -> None:
    info = zipfile.ZipInfo("text.txt")
    info.external_attr = 0o120777 << 16
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(info, "/etc/passwd")
    with pytest.raises(DataError, match=r"text.txt: is a link"):
        read(buffer.getvalue(), "text.txt")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_member_that_is_there_twice_is_refused() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.txt", "one")
        archive.writestr("a.txt", "two")
    with pytest.raises(DataError, match=r"a.txt: is there twice"):
        read(buffer.getvalue(), "a.txt")


@pytest.mark.parametrize(
    "bomb",
    [
        zipped({"zeros": bytes(5_000_000)}),
        gzip.compress(tarred({"zeros": bytes(5_000_000)})),
        zipped({"inner.zip": zipped({"zeros": bytes(5_000_000)})}),
        zipped({"zeros": bz2.compress(bytes(5_000_000))}),
    ],
    ids=["zip", "tar.gz", "zip in zip", "bz2 in zip"],
)
def test_a_decompression_bomb_is_stopped_at_the_bound(bomb: bytes) -> None:
    members = ("inner.zip", "zeros") if b"inner.zip" in bomb else ("zeros",)
    assert read(bomb, *members)["zeros"] == bytes(5_000_000)
    with pytest.raises(DataError, match=r"max_unpacked_bytes=1,000,000"):
        read(bomb, *members, limit=1_000_000)


def test_a_file_that_is_not_compressed_is_never_a_bomb() -> None:
    assert read(b"x" * 5000, limit=100) == {"file": b"x" * 5000}


@pytest.mark.parametrize("kind", KINDS)
def test_an_archive_that_is_cut_off_is_an_error(kind: str) -> None:
    if kind == "tar of 1979":
        pytest.skip("the same reader as tar")
    files = {"big.txt": bytes(range(256)) * 2000}
    data = KINDS[kind](files)
    with pytest.raises(DataError, match=r"cut off|damaged"):
        read(data[: len(data) // 2], "big.txt")


def test_a_flipped_byte_in_a_zip_is_found() -> None:
    data = bytearray(zipped({"a.txt": bytes(range(256)) * 40}))
    data[60] ^= 0xFF
    with pytest.raises(DataError, match=r"a.txt: damaged"):
        read(bytes(data), "a.txt")


def test_nothing_is_unpacked_to_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for kind in ("zip", "tar.gz"):
        read(KINDS[kind](FILES), "*")
    assert list(tmp_path.iterdir()) == []
