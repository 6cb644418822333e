"""Digests of the files that `kind: file` sources name: their content, not their time, decides whether a corpus is current."""

import json
import os
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from smelt.plan.errors import DataError
from smelt.plan.manifest import canonical, sha256_file, sha256_text, write_atomically
from smelt.plan.settings.source import FileSource

MEMORY = Path(".snakemake") / "smelt-files.json"
"""Path → [size, time of change, sha256], so that large files are read once and not at every start."""

MOST_NAMED = 50
"""Files of a source that a spec lists one by one; more have one digest together, since a spec must fit into a command line."""


def file_digests(settings: dict[str, Any]) -> dict[str, str]:
    """Path as the source names it → sha256, for the file sources of a corpus or task. Raises DataError for what can't be read."""
    sources = [source for source in settings.get("sources", []) if source["kind"] == "file"]
    if not sources:
        return {}
    found: dict[str, str] = {}
    known = _remembered()
    before = dict(known)
    for source in TypeAdapter(list[FileSource]).validate_python(sources):
        digests = {name: _digest(path, known) for name, path in readable_files(source)}
        if len(digests) > MOST_NAMED:
            digests = {f"{len(digests)} files": sha256_text(canonical(digests))}
        found |= {f"{source.path}: {name}": digest for name, digest in digests.items()}
    if known != before and MEMORY.parent.is_dir():
        write_atomically(MEMORY, json.dumps(known, indent=1), sync=False)
    return found


def readable_files(source: FileSource) -> list[tuple[str, Path]]:
    """`source.files()`. Raises DataError if there is none, or one whose name or content can't be read."""
    try:
        found = source.files()
    except OSError as error:
        raise DataError(f"source path {source.path!r}: {error.strerror}; give a path that can be read") from None
    for name, path in found:
        if not _is_unicode(name):
            raise DataError(
                f"source path {source.path!r}: the name {os.fsencode(name)!r} is not UTF-8; rename the file"
            )
        if not os.access(path, os.R_OK):
            raise DataError(f"source path {source.path!r}: {name!r} may not be read; mend its permissions")
    return found


def _is_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _digest(path: Path, known: dict[str, list[Any]]) -> str:
    about = path.stat()
    stamp = [about.st_size, about.st_mtime_ns]
    remembered = known.get(str(path))
    if not isinstance(remembered, list) or remembered[:2] != stamp:
        known[str(path)] = remembered = [*stamp, sha256_file(path)]
    return str(remembered[2])


def _remembered() -> dict[str, list[Any]]:
    try:
        found = json.loads(MEMORY.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # absent or broken: the files are read again
        return {}
    return found if isinstance(found, dict) else {}
