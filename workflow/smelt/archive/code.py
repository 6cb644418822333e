"""The code that made an experiment: what git tracks, as it is in the working tree, and modules that are not added yet."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from smelt.archive.entry import Entry

WITHOUT_GIT = (
    "config",
    "envs",
    "profiles",
    "workflow",
    "Snakefile",
    "Makefile",
    "LICENSE",
    "README.md",
    "pyproject.toml",
)
"""What is taken of a copy that is no git checkout: all that a run needs."""
NOT_CODE = ("__pycache__", ".egg-info")


@dataclass
class Code:
    entries: list[Entry] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """Tracked names that are no regular file within the checkout: submodules, links to folders or to places outside."""


def code(root: Path, prefix: str = "code") -> Code:
    """Entries of the checkout at `root`, below the folder `prefix` of the archive."""
    tracked = _tracked(root)
    found = Code()
    for name, executable in sorted(tracked if tracked is not None else _walked(root)):
        path = root / name
        if not os.path.lexists(path):
            continue  # removed in the working tree, which is what counts
        # A link becomes the file that it leads to: an archive without links is safe to unpack.
        if path.is_file() and path.resolve().is_relative_to(root.resolve()):
            # Read at once, so that an edit while the models are packed does no harm.
            found.entries.append(Entry.of_bytes(f"{prefix}/{name}", path.read_bytes(), executable))
        else:
            found.left_out.append(name)
    return found


def _tracked(root: Path) -> list[tuple[str, bool]] | None:
    """(name, whether it is executable); None if `root` is not the top of a git checkout.

    Of `workflow/` also what git neither tracks nor ignores: a new module counts in the digest of the code as any other.
    """
    try:
        top = subprocess.run(
            ["git", "-C", root, "rev-parse", "--show-toplevel"], capture_output=True, text=True, check=True
        )
        if Path(top.stdout.rstrip("\n")).resolve() != root.resolve():
            return None
        listed = subprocess.run(["git", "-C", root, "ls-files", "-s", "-z"], capture_output=True, check=True)
        new = ["git", "-C", root, "ls-files", "--others", "--exclude-standard", "-z", "--", "workflow"]
        fresh = subprocess.run(new, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    found = {}
    for line in listed.stdout.split(b"\0"):
        about, _, name = line.partition(b"\t")
        if name:
            found[name.decode()] = about.startswith(b"100755")
    for name in fresh.stdout.split(b"\0"):
        if name:
            found[name.decode()] = os.access(root / name.decode(), os.X_OK)
    return list(found.items())


def _walked(root: Path) -> Iterator[tuple[str, bool]]:
    for top in WITHOUT_GIT:
        path = root / top
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            name = file.relative_to(root)
            if file.is_file() and not any(part.startswith(".") or part.endswith(NOT_CODE) for part in name.parts):
                yield name.as_posix(), os.access(file, os.X_OK)
