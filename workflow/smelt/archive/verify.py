"""`smelt verify PATH…`: is every byte what it was? For an archive, a node's folder or manifest, an experiment's view.

An archive is read as a stream and nothing of it is unpacked, so that neither its size nor a hostile name in it can do harm.
"""

import hashlib
import json
import sys
import tarfile
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from smelt.archive import sums
from smelt.plan.errors import DataError
from smelt.plan.manifest import Manifest, sha256_file

VIEW = "experiment.json"
MAGIC = b"\x28\xb5\x2f\xfd"
"""With which zstd files begin."""
BLOCK = 2**20


def main(paths: list[Path]) -> int:
    """Print what was found for each path; 1 if anything is wrong."""
    bad = False
    for path in paths:
        problems = verify(path)
        for problem in problems:
            print(problem, file=sys.stderr)
        bad |= bool(problems)
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        print(f"{path}: {count if problems else 'all as it was'}")
    return int(bad)


def verify(path: Path) -> list[str]:
    """What is wrong, one problem a string; empty if every listed file is there with the listed content and nothing else is."""
    if not path.exists():
        return [f"{path}: there is no such file or folder"]
    if path.is_dir():
        inside = [path / name for name in ("manifest.json", VIEW) if (path / name).exists()]
        if not inside:
            return [f"{path}: neither a node (it has no manifest.json) nor an experiment's view (no {VIEW})"]
        path = inside[0]
    if path.name == VIEW:
        return _view(path)
    if path.name == "manifest.json":
        return _node(path)
    with path.open("rb") as file:
        if file.read(len(MAGIC)) == MAGIC:
            return _archive(path)
    return [f"{path}: not an archive (.tar.zst), a manifest.json, a node's folder or an experiment's view"]


def _node(path: Path) -> list[str]:
    """Files against the manifest, and the manifests that it was made from against what they were then."""
    try:
        manifest = Manifest.read(path)
        inputs = manifest.provenance.get("inputs", {})
    except DataError as error:
        return [str(error)]
    except FileNotFoundError:
        return [
            f"{path.with_name('provenance.json')}: missing; snakemake makes this node again",
            *manifest.problems(True),
        ]
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        return [f"{path.with_name('provenance.json')}: can't be read ({error})", *manifest.problems(True)]
    found = manifest.problems(content=True)
    results = manifest.directory.resolve().parent.parent
    for ref, digest in sorted(inputs.items()):
        above = results / ref / "manifest.json"
        if above.exists() and sha256_file(above) != digest:
            found.append(
                f"{path}: was made from another {ref} than the one that is here; snakemake makes this node again"
            )
    return found


def _view(path: Path) -> list[str]:
    try:
        view = json.loads(path.read_text(encoding="utf-8"))
        refs, inputs = view["nodes"], view["inputs"]
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        return [f"{path}: not an experiment's view ({error}); snakemake makes it again"]
    found = []
    for ref in refs:
        manifest = path.parent / "nodes" / ref / "manifest.json"
        if not manifest.exists():
            found.append(f"{manifest}: missing; snakemake makes this node again")
            continue
        if sha256_file(manifest) != inputs.get(ref):
            found.append(f"{manifest}: is not the one that this view was made of; snakemake makes the view again")
        found += _node(manifest)
    return found


def _archive(path: Path) -> list[str]:
    import zstandard

    reader = _Reader()
    try:
        with path.open("rb") as raw:
            unpacked = _Unpacked(raw)
            with tarfile.open(fileobj=unpacked, mode="r|", encoding="utf-8") as tar:
                for member in tar:
                    reader.member(tar, member)
            unpacked.finish()
    except (zstandard.ZstdError, tarfile.TarError, EOFError, OSError, ValueError) as error:
        return [f"{path}: cut off or damaged after {len(reader.found)} whole files ({error})"]
    return [f"{path}: {problem}" for problem in [*reader.verdict(), *_beside(path)]]


class _Unpacked:
    """The bytes of one zstd frame. zstandard's own reader takes a frame that is cut off for one that has ended."""

    STEP = 1024
    """Compressed bytes at once: these unpack to 32 MiB at most, whoever made them."""

    def __init__(self, raw: BinaryIO) -> None:
        import zstandard

        self.raw, self.ready = raw, bytearray()
        self.frame = zstandard.ZstdDecompressor(max_window_size=2**27).decompressobj()

    def read(self, size: int) -> bytes:
        """Fewer than `size` only at the end of the frame. Raises EOFError if the file ends before."""
        while len(self.ready) < size and not self.frame.eof:
            block = self.raw.read(self.STEP)
            if not block:
                raise EOFError("the compressed data ends too early")
            self.ready += self.frame.decompress(block)
        taken = bytes(self.ready[:size])
        del self.ready[:size]
        return taken

    def finish(self) -> None:
        """To the end, so that zstd checks its own checksum. Raises EOFError, or ValueError for bytes after the frame."""
        while self.read(BLOCK):
            pass
        if self.frame.unused_data or self.raw.read(1):
            raise ValueError("there are bytes after the end of the archive")


class _Reader:
    """Takes the members one after another: hashes them, and keeps the table of those that are listed."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self.problems: list[str] = []
        self.tables: dict[str, str] = {}

    def member(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        name = member.name
        if problem := unsafe(member):
            self.problems.append(f"{name!r}: refused, {problem}")
            return
        if name in self.found:
            self.problems.append(f"{name}: is in the archive twice")
            return
        file = tar.extractfile(member)
        assert file is not None  # a regular file
        digest, is_table = hashlib.sha256(), PurePosixPath(name).name == sums.NAME and name.count("/") == 1
        if is_table and member.size > sums.MOST_BYTES:
            self.problems.append(f"{name}: {member.size:,} bytes is no table of files")
            return
        kept = []
        while block := file.read(BLOCK):
            digest.update(block)
            if is_table:
                kept.append(block)
        self.found[name] = digest.hexdigest()
        if is_table:
            self.tables[name.partition("/")[0]] = b"".join(kept).decode(errors="replace")

    def verdict(self) -> list[str]:
        """All that is wrong, by name."""
        tops = {name.partition("/")[0] for name in self.found}
        if len(self.tables) != 1 or tops != set(self.tables):
            return [
                *self.problems,
                f"not an archive of smelt: it should hold one folder with a {sums.NAME}, and holds {_some(tops)}",
            ]
        ((top, text),) = self.tables.items()
        listed, problems = sums.read(text)
        here = {name.removeprefix(f"{top}/"): digest for name, digest in self.found.items()}
        del here[sums.NAME]
        problems += [
            f"{name}: content differs from its sha256" for name in here if name in listed and here[name] != listed[name]
        ]
        problems += [f"{name}: is not listed in {sums.NAME}" for name in here if name not in listed]
        problems += [f"{name}: listed in {sums.NAME}, and missing" for name in listed if name not in here]
        return [*self.problems, *sorted(problems)]


def unsafe(member: tarfile.TarInfo) -> str:
    """Why a member must not be unpacked; empty if it may be: a regular file whose name stays within the folder."""
    if not member.isreg():
        return "it is no regular file (a link, a folder or a device)"
    parts = member.name.split("/")
    if (
        member.name.startswith("/")
        or "\\" in member.name
        or "\n" in member.name
        or any(p in ("", ".", "..") for p in parts)
    ):
        return "its name leads out of the folder or can't be written safely"
    try:
        tarfile.data_filter(member, "/nowhere")
    except tarfile.FilterError as error:
        return f"tar's own filter says: {error}"
    return ""


def _beside(path: Path) -> list[str]:
    """The table beside the archive, if there is one, says what the packed file must be."""
    table = path.with_name(sums.NAME)
    if not table.exists():
        return []
    listed, problems = sums.read(table.read_text(encoding="utf-8", errors="replace"))
    if path.name in listed and sha256_file(path) != listed[path.name]:
        problems.append(f"differs from its sha256 in {table}")
    return problems


def _some(names: set[str]) -> str:
    shown = sorted(names)[:3]
    return ", ".join(map(repr, shown)) + (" and more" if len(names) > 3 else "") or "nothing"
