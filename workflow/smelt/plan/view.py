"""`results/experiments/<name>/`: an experiment as a person looks for it. Links to its nodes, the report, the figures, the archive."""

import json
import os
from pathlib import Path
from typing import Any

from smelt.plan.errors import SmeltError
from smelt.plan.manifest import Manifest, canonical, sha256_file, to_json, write_atomically
from smelt.plan.plan import Plan, Ref

FILE = "experiment.json"


class View:
    """`experiment.json` in the view says of which nodes it is; all else there is links."""

    def __init__(self, plan: Plan, name: str, results: Path) -> None:
        self.name, self.results = name, results
        self.nodes: list[Ref] = sorted(plan.experiments[name])
        self.path = results / "experiments" / name / FILE

    @property
    def spec_text(self) -> str:
        return spec_text(self.name, self.nodes)

    def made_of(self) -> dict[str, Any]:
        """`{"spec", "inputs"}` of the view that is there; empty if it can't be read."""
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # absent, unreadable, not UTF-8 or not JSON
            return {}
        return found if isinstance(found, dict) and isinstance(found.get("inputs"), dict) else {}


def spec_text(name: str, nodes: list[Ref]) -> str:
    return canonical({"experiment": name, "nodes": nodes})


def remove(folder: Path) -> None:
    """Take a view away; the folder stays if a person put anything there."""
    (folder / FILE).unlink(missing_ok=True)
    _unlink(folder)
    for path in (folder / "nodes", folder):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()


def _unlink(folder: Path) -> None:
    """Remove the links that `make` made, and the folders that are empty then."""
    for path in [*folder.glob("nodes/*/*"), *folder.iterdir()]:
        if path.is_symlink() and str(path.readlink()).startswith("../.."):
            path.unlink()
    for stage in folder.glob("nodes/*"):
        if stage.is_dir() and not any(stage.iterdir()):
            stage.rmdir()


def make(spec: str, out: Path) -> None:
    """Replace the links of the view; files that a person put there stay."""
    try:
        wanted = json.loads(spec)
        name, nodes = wanted["experiment"], wanted["nodes"]
    except (json.JSONDecodeError, KeyError, TypeError):
        raise SmeltError("--spec: not the spec of an experiment: it comes from the workflow") from None
    folder = out.parent
    results = folder.parent.parent
    folder.mkdir(parents=True, exist_ok=True)
    _unlink(folder)
    for ref in nodes:
        stage = ref.partition("/")[0]
        link = folder / "nodes" / ref
        link.parent.mkdir(parents=True, exist_ok=True)
        if not os.path.lexists(link):
            link.symlink_to(Path("../../../..") / ref)
        if stage in ("report", "archive"):
            for file in Manifest.read(results / ref / "manifest.json").files:
                if "/" not in file and not os.path.lexists(folder / file):
                    (folder / file).symlink_to(Path("../..") / ref / file)
    inputs = {ref: sha256_file(results / ref / "manifest.json") for ref in nodes}
    write_atomically(out, to_json({"experiment": name, "nodes": nodes, "spec": spec, "inputs": inputs}))
