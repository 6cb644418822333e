"""What is current, what is not, and why: from manifests and provenance alone, without Snakemake's records.

A node is current if its provenance was made of the spec that the plan now has, on the upstream manifests that are there
now, its manifest is the one that was written with the provenance, and all files that it lists are there in full size.
"""

import functools
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smelt.plan.errors import DataError
from smelt.plan.identity import code_modules
from smelt.plan.manifest import Manifest, canonical
from smelt.plan.plan import Node, Plan, Ref


@dataclass(frozen=True)
class Cause:
    """Something that differs: a settings key, a module of the code, an upstream node, a file."""

    key: str
    old: Any
    new: Any

    def __str__(self) -> str:
        return f"{self.key}: {_text(self.old)} → {_text(self.new)}"


class Status:
    """The state of a plan's nodes under a results folder; reads each file once."""

    def __init__(self, plan: Plan, results: Path) -> None:
        self.plan, self.results = plan, results
        self._own: dict[Ref, list[Cause]] = {}

    def manifest_path(self, ref: Ref) -> Path:
        return self.results / ref / "manifest.json"

    @functools.cache  # noqa: B019 - a Status lives as long as the command
    def digest(self, ref: Ref) -> str | None:
        """sha256 of the node's manifest; None if there is none."""
        content = self._content(ref)
        return None if content is None else hashlib.sha256(content).hexdigest()

    @functools.cache  # noqa: B019
    def _content(self, ref: Ref) -> bytes | None:
        try:
            with open(f"{self.results}/{ref}/manifest.json", "rb") as file:  # noqa: PTH123 - a thousand Paths cost as much as the reading
                return file.read()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None

    @functools.cache  # noqa: B019
    def provenance(self, ref: Ref) -> dict[str, Any] | None:
        try:
            with open(f"{self.results}/{ref}/provenance.json", "rb") as file:  # noqa: PTH123
                found = json.loads(file.read())
        except (OSError, ValueError):  # absent, unreadable, not UTF-8 or not JSON: nothing is proved
            return None
        return found if isinstance(found, dict) and isinstance(found.get("spec"), dict) else None

    @functools.cache  # noqa: B019
    def recorded_spec(self, ref: Ref) -> str | None:
        """The spec that the node was made of, in canonical form; None if nothing says so."""
        found = self.provenance(ref)
        return canonical(found["spec"]) if found else None

    def causes(self, ref: Ref) -> list[Cause]:
        """Why this node itself must run, whatever happens above it; empty if it is current."""
        if ref not in self._own:
            node = self.plan.nodes[ref]
            self._own[ref] = self._missing(node) if self.digest(ref) is None else self._differences(node)
        return self._own[ref]

    def to_run(self) -> dict[Ref, list[Cause]]:
        """Each node that would run, upstream first, with its own causes (none: it only follows another)."""
        running: dict[Ref, list[Cause]] = {}
        for ref, node in self.plan.nodes.items():
            own = self.causes(ref)
            if own or any(above in running for above in node.above):
                running[ref] = own
        return running

    def _differences(self, node: Node) -> list[Cause]:
        recorded = self.provenance(node.ref)
        if recorded is None:
            return [Cause("provenance.json", None, "missing or unreadable: nothing proves what this is of")]
        found = [] if self.recorded_spec(node.ref) == node.spec_text else _spec_causes(recorded, node)
        inputs = _mapping(recorded, "inputs")
        for above in node.above:
            before, now = inputs.get(above), self.digest(above)
            if now is not None and before != now:
                found.append(Cause(f"upstream.{above}", _short(before), _short(now)))
        written, there = recorded.get("manifest"), self.digest(node.ref)
        if written is not None and written != there:
            found.append(Cause("manifest.json", _short(written), _short(there)))
        try:
            broken = Manifest.parse(self.manifest_path(node.ref), self._content(node.ref) or b"").problems()
        except DataError as error:
            broken = [str(error)]
        found += [Cause("files", "as listed", problem) for problem in broken]
        return found

    def _missing(self, node: Node) -> list[Cause]:
        """For a node that is not there: what differs from the last one in its place."""
        previous = self._previous(node)
        if previous is None:
            return [Cause("manifest.json", None, "not made yet")]
        recorded = self.provenance(previous)
        if recorded is None:
            return [Cause("manifest.json", None, "not made yet")]
        return _spec_causes(recorded, node) or [Cause("manifest.json", previous, "not made yet")]

    def _previous(self, node: Node) -> Ref | None:
        """The node of the same stage and label that was made last; else the last one of this stage that the plan no longer has."""
        if self.provenance(node.ref) is not None:
            return node.ref
        candidates = [ref for ref in self._made(node.stage) if ref != node.ref]
        same = [ref for ref in candidates if ref.partition("/")[2].rpartition("-")[0] == node.label]
        left = [ref for ref in candidates if ref not in self.plan.nodes]
        return max(same or left, key=self._started, default=None)

    def _started(self, ref: Ref) -> str:
        recorded = self.provenance(ref)
        return str(recorded.get("started", "")) if recorded else ""

    @functools.cache  # noqa: B019
    def _made(self, stage: str) -> list[Ref]:
        folder = self.results / stage
        if not folder.is_dir():
            return []
        return sorted(f"{stage}/{path.name}" for path in folder.iterdir() if (path / "provenance.json").exists())


def _spec_causes(recorded: dict[str, Any], node: Node) -> list[Cause]:
    return spec_differences(recorded["spec"], node.spec, _mapping(recorded, "code"))


def _mapping(recorded: dict[str, Any], key: str) -> dict[str, Any]:
    found = recorded.get(key)
    return found if isinstance(found, dict) else {}


def spec_differences(old: dict[str, Any], new: dict[str, Any], old_modules: dict[str, str]) -> list[Cause]:
    """Key by key; for the code, module by module."""
    found = []
    for key in sorted({*old, *new} - {"code"}):
        found += _compare(key, old.get(key), new.get(key))
    if old.get("code") != new.get("code"):
        modules = code_modules(new["stage"])
        changed = [
            Cause(f"code.{name}", old_modules.get(name), modules.get(name))
            for name in sorted({*old_modules, *modules})
            if old_modules.get(name) != modules.get(name)
        ]
        found += changed or [Cause("code", old.get("code"), new.get("code"))]
    return found


def _compare(key: str, old: Any, new: Any) -> list[Cause]:
    if isinstance(old, dict) and isinstance(new, dict):
        return [
            cause
            for inner in sorted({*old, *new})
            for cause in _compare(f"{key}.{inner}", old.get(inner), new.get(inner))
        ]
    return [] if canonical(old) == canonical(new) else [Cause(key, old, new)]


def _short(digest: str | None) -> str | None:
    return digest[:12] if digest else None


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value if len(value) <= 300 else value[:297] + "…"
    text = canonical(value)
    return text if len(text) <= 100 else text[:97] + "…"
