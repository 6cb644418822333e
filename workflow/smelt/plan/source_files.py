"""Digests of the files that `kind: file` sources name: their content, not their time, decides whether a corpus is current."""

import functools
import json
from pathlib import Path
from typing import Any

from smelt.plan.manifest import canonical, sha256_file, sha256_text, write_atomically
from smelt.plan.settings.source import FileSource

MEMORY = Path(".snakemake") / "smelt-files.json"
"""Digests by path, size and time of change, so that large files are read once and not at every start."""

MOST_NAMED = 50
"""Files of a source that a spec lists one by one; more have one digest together, since a spec must fit into a command line."""


def file_digests(settings: dict[str, Any]) -> dict[str, str]:
    """Path as the source names it → sha256, for all file sources anywhere in `settings`. Raises DataError for what is not there."""
    found: dict[str, str] = {}
    for source in _file_sources(settings):
        digests = {name: _digest(path) for name, path in source.files()}
        if len(digests) > MOST_NAMED:
            digests = {f"{len(digests)} files": sha256_text(canonical(digests))}
        found |= {f"{source.path}: {name}": digest for name, digest in digests.items()}
    return found


def _file_sources(value: Any) -> list[FileSource]:
    if isinstance(value, dict):
        if value.get("kind") == "file" and "path" in value:
            return [FileSource.model_validate(value)]
        return [source for inner in value.values() for source in _file_sources(inner)]
    return [source for inner in value for source in _file_sources(inner)] if isinstance(value, list) else []


def _digest(path: Path) -> str:
    about = path.stat()
    key = f"{path.absolute()} {about.st_size} {about.st_mtime_ns}"
    memory = _memory()
    if key not in memory:
        memory[key] = sha256_file(path)
        if MEMORY.parent.is_dir():
            write_atomically(MEMORY, json.dumps(memory, indent=1))
    return memory[key]


@functools.cache
def _memory() -> dict[str, str]:
    try:
        return json.loads(MEMORY.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
