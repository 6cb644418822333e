"""Bring Snakemake's records in step with what provenance proves, before Snakemake decides what to run.

Snakemake keeps the params of each job in `.snakemake/metadata`; without a record it takes any existing output as current.
So for every manifest that exists, the record is made to say what provenance says: the spec that the node was made of and the
sha256 of the manifests it was made from. Snakemake's own triggers then do the rest. A lost `.snakemake/`, results that were
moved into a fresh clone, or a file cut off behind Snakemake's back are all judged by content. Snakemake does not miss a manifest
in the middle as long as what is made of it is there, so that is marked as well. Only `.snakemake/` is written.
"""

import base64
import json
import os
from pathlib import Path
from typing import Any

from smelt.plan.manifest import write_atomically
from smelt.plan.plan import Plan, Ref
from smelt.plan.status import Status
from smelt.plan.view import View

RECORD_FORMAT = 6
"""`snakemake.persistence.RECORD_FORMAT_VERSION` of the pinned Snakemake; a test compares them."""


def bring_in_step(plan: Plan, results: Path, folder: Path) -> None:
    """`results` relative to the working directory, as rules name it; `folder` is `.snakemake`."""
    status = Status(plan, results)
    writer = _Writer(folder)
    missing = {ref for ref in plan.nodes if status.digest(ref) is None}
    incomplete = {*missing, *plan.below(missing)}
    for ref, node in plan.nodes.items():
        if ref in missing:
            continue
        recorded = status.provenance(ref)
        spec = status.recorded_spec(ref) or "no provenance"
        others = [cause for cause in status.causes(ref) if not cause.key.startswith(("code", "format", "files."))]
        if others:
            spec = f"{spec} but {'; '.join(map(str, others))}"
        if ref in incomplete:
            spec = f"{spec} but a node above is missing"
        inputs = recorded.get("inputs", {}) if recorded else {}
        writer.write(node.stage, results, f"{results}/{ref}/manifest.json", spec, node.above, inputs)
    for name in plan.experiments:
        view = View(plan, name, results)
        if view.path.exists():
            made_of = view.made_of()
            spec = made_of.get("spec", "unreadable")
            if not incomplete.isdisjoint(view.nodes):
                spec = f"{spec} but a node is missing"
            writer.write("experiment", results, str(view.path), spec, view.nodes, made_of.get("inputs", {}))


class _Writer:
    """Writes Snakemake's metadata files where they differ (snakemake.persistence.file.FilePersistence)."""

    def __init__(self, folder: Path) -> None:
        self.metadata = folder / "metadata"
        self.metadata.mkdir(parents=True, exist_ok=True)
        # Snakemake takes a metadata folder without this one for that of an older version, and migrates it.
        (folder / "incomplete").mkdir(exist_ok=True)
        self.longest = os.pathconf(self.metadata, "PC_NAME_MAX") or 255

    def path(self, output: str) -> Path:
        name = base64.urlsafe_b64encode(output.encode()).decode()
        size = self.longest - 1
        parts = [name[i : i + size] for i in range(0, len(name), size)]
        return self.metadata.joinpath(*[f"@{part}" for part in parts[:-1]], parts[-1])

    def write(
        self, rule: str, results: Path, output: str, spec: str, above: list[Ref], digests: dict[str, str]
    ) -> None:
        path = self.path(output)
        wanted: dict[str, Any] = {
            "params": [repr(spec)],
            "input_checksums": {f"{results}/{ref}/manifest.json": f"sha256:{each}" for ref, each in digests.items()},
        }
        try:
            record = json.loads(path.read_text())
        except (FileNotFoundError, ValueError):
            record = {}
        if not isinstance(record, dict):
            record = {}
        if all(record.get(key) == value for key, value in wanted.items()):
            return
        record |= wanted | {
            "rule": rule,
            "record_format_version": RECORD_FORMAT,
            "incomplete": False,
            "input": sorted(f"{results}/{ref}/manifest.json" for ref in above),
        }
        write_atomically(path, json.dumps(record), sync=False)
