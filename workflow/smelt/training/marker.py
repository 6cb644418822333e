"""What makes a folder of several files a whole checkpoint: COMPLETE, which is written last.

It holds what the writer wants to know again, and every file with its size and xxh3: a kill in between leaves a folder
that looks usable, and a disk may lose what it said was written.
"""

import json
import os
from pathlib import Path
from typing import Any

import xxhash

from smelt.plan.manifest import to_json, write_atomically

MARKER = "COMPLETE"
CHUNK = 2**22

Kinds = dict[str, type]
"""What `about` must hold besides the files: name → type."""


def mark(folder: Path, about: dict[str, Any]) -> None:
    """Declare the folder whole, after all its files have reached the disk. `about` is JSON."""
    write_atomically(folder / MARKER, to_json(about | {"files": _listing(folder)}))


def is_marked(folder: Path) -> bool:
    """Whether it was finished once; `broken` tells whether it still is whole."""
    return (folder / MARKER).exists()


def read(folder: Path, kinds: Kinds) -> dict[str, Any]:
    """What `mark` was given, and `files`. Raises ValueError if it is not what `mark` writes, FileNotFoundError without one."""
    about = json.loads((folder / MARKER).read_text(encoding="utf-8"))
    kinds = {**kinds, "files": dict}
    if not isinstance(about, dict) or not all(isinstance(about.get(key), kind) for key, kind in kinds.items()):
        raise ValueError(f"it has not all of {', '.join(kinds)}")
    if not all(isinstance(each, dict) and {"size", "xxh3"} <= set(each) for each in about["files"].values()):
        raise ValueError("a file is without size or xxh3")
    return about


def broken(folder: Path, kinds: Kinds) -> str | None:
    """Why a checkpoint can't be used, naming the file; None if it is whole."""
    try:
        files = read(folder, kinds)["files"]
    except FileNotFoundError:
        return f"{folder / MARKER} is missing, so it was not finished"
    except ValueError as error:
        return f"{folder / MARKER} is damaged ({error})"
    for name, expected in files.items():
        path = folder / name
        if not path.is_file():
            return f"{path} is missing"
        if path.stat().st_size != expected["size"]:
            return f"{path} has {path.stat().st_size} bytes instead of {expected['size']}"
        if _digest(path) != expected["xxh3"]:
            return f"{path} has other content than when it was written"
    return None


def _listing(folder: Path) -> dict[str, dict[str, Any]]:
    """Relative path → size and xxh3 of every file but the marker, each brought to the disk first."""
    found = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / MARKER):
        with path.open("rb+") as file:
            os.fsync(file.fileno())
        found[str(path.relative_to(folder))] = {"size": path.stat().st_size, "xxh3": _digest(path)}
    return found


def _digest(path: Path) -> str:
    digest = xxhash.xxh3_128()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
