"""Checkpoints in state/: `checkpoint-<step>/` as transformers writes it, whole when its marker is there and every file is as listed.

transformers writes several files one after the other; a kill in between leaves a folder that looks usable. The marker
lists size and sha256 of each file and is written last.
"""

import json
import shutil
from pathlib import Path
from typing import Any

from smelt.plan.job import Job
from smelt.plan.manifest import listing, sha256_file, to_json, write_atomically

MARKER = "COMPLETE.json"
POSITION = "position.json"
KEPT = 2
"""Newest whole checkpoints that are kept: one to go on from, one more should it turn out to be damaged."""


class Checkpoints:
    """Those of one node."""

    def __init__(self, job: Job) -> None:
        self.job, self.directory = job, job.state

    def path(self, step: int) -> Path:
        return self.directory / f"checkpoint-{step}"

    def finish(self, step: int, position: dict[str, Any]) -> None:
        """Mark the checkpoint that was just written as whole; `position` is what its training had seen. Then remove older ones."""
        path = self.path(step)
        write_atomically(path / POSITION, to_json(position))
        names = [str(file.relative_to(path)) for file in path.rglob("*") if file.is_file() and file.name != MARKER]
        write_atomically(path / MARKER, to_json(listing(path, names)))
        self._prune(step, position)

    def newest(self) -> tuple[Path, dict[str, Any]] | None:
        """The newest whole checkpoint and its position; damaged ones are named and passed over."""
        for step in sorted(self._steps(), reverse=True):
            path = self.path(step)
            problem = _problem(path)
            if problem is None:
                position = _object(path / POSITION)
                best = self.path(position["best"]["step"]) if position["best"] else path
                if best == path or (problem := _problem(best)) is None:
                    return path, position
                problem = f"{best.name}, the best before it, is unusable: {problem}"
            self.job.say(f"{path.name} is passed over: {problem}")
        return None

    def _steps(self) -> list[int]:
        names = (path.name.removeprefix("checkpoint-") for path in self.directory.glob("checkpoint-*"))
        return [int(name) for name in names if name.isdigit()]

    def _prune(self, step: int, position: dict[str, Any]) -> None:
        whole = sorted((s for s in self._steps() if s <= step and (self.path(s) / MARKER).exists()), reverse=True)[
            :KEPT
        ]
        kept = set(whole)
        for other in whole:
            try:
                best = _object(self.path(other) / POSITION)["best"]
                kept.add(best["step"] if best else other)
            except (OSError, ValueError, KeyError, TypeError):
                continue  # damaged, and passed over when it was looked at
        for other in self._steps():
            if other not in kept:
                shutil.rmtree(self.path(other))


def _problem(path: Path) -> str | None:
    marker = path / MARKER
    if not marker.exists():
        return "it was not finished"
    try:
        files = {name: (about["size"], about["sha256"]) for name, about in _object(marker).items()}
    except (ValueError, KeyError, TypeError) as error:
        return f"{MARKER} is damaged ({error})"
    if POSITION not in files:
        return f"{MARKER} is damaged (it lists no {POSITION})"
    for name, (size, digest) in files.items():
        file = path / name
        if not file.exists():
            return f"{name} is missing"
        if file.stat().st_size != size or sha256_file(file) != digest:
            return f"{name} is not what was written"
    return None


def _object(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise TypeError("no JSON object")
    return found
