"""What a node left: `manifest.json` (content only, so that equal work gives equal bytes) and `provenance.json` (when, where, how).

The manifest is the one declared output of a rule. It is written last, so that whoever sees it may rely on what it lists.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from smelt.plan.errors import DataError

FORMAT = 1
"""Version of the manifest's layout. It is part of every spec: raising it makes every node run again."""


def canonical(value: Any) -> str:
    """JSON in the one form that is hashed and compared: sorted keys, no spaces, no NaN.

    Raises:
        TypeError: for what has no stable form (a set, a path, an object).
        ValueError: for NaN and infinity.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)


def sha256_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def sha256_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_atomically(path: Path, data: str | bytes, sync: bool = True) -> None:
    """Write under a temporary name in the same folder, fsync, rename: `path` exists wholly or not at all.

    Without `sync` a power cut may leave it empty: for what is only a memory of something and made again at no cost.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.chmod(temporary, 0o644)  # mkstemp makes 0600; results are for a group to read
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def to_json(value: Any) -> str:
    """JSON for a file that people read and that must be the same for the same content."""
    return json.dumps(value, sort_keys=True, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


@dataclass(frozen=True)
class Manifest:
    """A finished node, read from its `manifest.json`."""

    path: Path
    data: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> "Manifest":
        """Raises DataError if the file is missing or is not a manifest of this format."""
        try:
            return cls.parse(path, path.read_bytes())
        except FileNotFoundError:
            raise DataError(f"{path}: there is no such manifest; run snakemake to make this node first") from None
        except OSError as error:
            raise DataError(f"{path}: can't be read ({error.strerror}); see to it and run snakemake again") from None

    @classmethod
    def parse(cls, path: Path, content: bytes) -> "Manifest":
        """`read` of content that is at hand."""
        try:
            data = json.loads(content)
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise DataError(f"{path}: not a manifest ({error}); delete it and run snakemake again") from None
        if not isinstance(data, dict) or data.get("format") != FORMAT or not _is_whole(data):
            raise DataError(f"{path}: not a manifest of format {FORMAT}; delete it and run snakemake again")
        return cls(path, data)

    @property
    def directory(self) -> Path:
        return self.path.parent

    @property
    def stage(self) -> str:
        return self.data["stage"]

    @property
    def id(self) -> str:
        """The node's id, `<label>-<10 hex digits>`."""
        return self.data["node"]

    @property
    def settings(self) -> dict[str, Any]:
        return self.data["settings"]

    @property
    def upstream(self) -> dict[str, str | list[str]]:
        """Role → `stage/id` (or a list of them)."""
        return self.data["upstream"]

    @property
    def facts(self) -> dict[str, Any]:
        """What the stage reports of its product: counts, shapes, `figures`. Never a time, a host or a path outside the node."""
        return self.data["facts"]

    @property
    def files(self) -> dict[str, dict[str, Any]]:
        """Relative path → `{"size": bytes, "sha256": hex}`."""
        return self.data["files"]

    @cached_property
    def provenance(self) -> dict[str, Any]:
        """`provenance.json` beside the manifest; `measurements` in it holds what a stage measured (timings, memory)."""
        return json.loads((self.directory / "provenance.json").read_text(encoding="utf-8"))

    def file(self, name: str, content: bool = False) -> Path:
        """Path of a listed file, after a check of its size, and of its sha256 too if `content` (1.4 GB/s).

        Raises DataError if it is not listed, missing, cut off or altered.
        """
        if name not in self.files:
            raise DataError(f"{self.path}: lists no file {name!r}; it lists {', '.join(sorted(self.files)) or 'none'}")
        if problem := self._problem(name, content):
            raise DataError(problem)
        return self.directory / name

    def folder(self, name: str, content: bool = False) -> Path:
        """Path of a folder, after the same check of every file listed in it."""
        for file in self.files:
            if file.startswith(f"{name}/"):
                self.file(file, content)
        return self.directory / name

    def _problem(self, name: str, content: bool) -> str | None:
        problem = self._size_problem(name)
        if problem is None and content and sha256_file(self.directory / name) != self.files[name]["sha256"]:
            return (
                f"{self.directory / name}: content differs from the sha256 in {self.path.name}; delete {self.path}, "
                "and snakemake makes this node again"
            )
        return problem

    def _size_problem(self, name: str) -> str | None:
        path, expected = self.directory / name, self.files[name]["size"]
        try:
            size = path.stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return f"{path}: missing, though {self.path.name} lists it; snakemake makes this node again"
        if size != expected:
            return f"{path}: {size} bytes, {self.path.name} says {expected}; snakemake makes this node again"
        return None

    def problems(self, content: bool = False) -> list[str]:
        """What differs from the listing: sizes always, sha256 too if `content`."""
        return [problem for name in sorted(self.files) if (problem := self._problem(name, content))]


def _is_whole(data: dict[str, Any]) -> bool:
    kinds = {"stage": str, "node": str, "settings": dict, "upstream": dict, "files": dict, "facts": dict}
    return all(isinstance(data.get(key), kind) for key, kind in kinds.items()) and all(
        isinstance(about, dict) and {"size", "sha256"} <= set(about) for about in data["files"].values()
    )


def listing(
    directory: Path, names: list[str], digest: Callable[[Path], str] = sha256_file
) -> dict[str, dict[str, Any]]:
    """The `files` entry of a manifest for `names` (relative to `directory`), each brought to the disk first.

    Else a power cut soon after could leave a file of the right size, full of zeros, which the check of sizes takes for whole.
    """
    for path in {directory / name for name in names} | {(directory / name).parent for name in names}:
        _sync(path)
    return {
        name: {"size": (directory / name).stat().st_size, "sha256": digest(directory / name)} for name in sorted(names)
    }


def _sync(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
