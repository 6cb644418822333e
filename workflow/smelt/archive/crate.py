"""`ro-crate-metadata.json`: the archive in the terms of RO-Crate 1.1, and each node as an action of a Process Run Crate 0.5.

Plain JSON-LD written here, since it must have the same bytes each time. https://www.researchobject.org/ro-crate/specification/1.1/,
https://www.researchobject.org/workflow-run-crate/profiles/process_run_crate/
"""

from datetime import datetime, timedelta
from typing import Any

from smelt import __version__
from smelt.archive.entry import Entry
from smelt.plan.manifest import Manifest

NAME = "ro-crate-metadata.json"
PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
TOP = {
    "README.md": ("What is in this archive", "text/markdown"),
    "SHA256SUMS": ("sha256 of every other file", "text/plain"),
    "configuration.yaml": ("The experiment with every setting", "application/yaml"),
    "report.html": ("Report", "text/html"),
    "requirements.txt": ("Exact versions of all packages", "text/plain"),
    "summary.json": ("Figures", "application/json"),
}
"""Files at the top: their title and type."""


def metadata(experiment: str, nodes: list[Manifest], entries: list[Entry], licences: list[str]) -> dict[str, Any]:
    """The JSON-LD document for an archive of `nodes` that holds `entries` (and SHA256SUMS, which can't list itself)."""
    sizes = {entry.name: entry.size for entry in entries}
    files = [_file(name, sizes.get(name)) for name in sorted(TOP) if name in sizes or name == "SHA256SUMS"]
    folders = [_folder(node) for node in nodes]
    if any(name.startswith("code/") for name in sizes):
        folders.append({"@id": "code/", "@type": "Dataset", "name": "The code that git tracked, as it was"})
    actions = [_action(node) for node in nodes]
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": experiment,
        "description": f"The experiment {experiment}, made with smelt: configuration, code, manifests, provenance, report and models.",
        "datePublished": max((action["endTime"] for action in actions), default="1980-01-01T00:00:00+00:00"),
        "license": {"@id": "#licences"},
        "conformsTo": {"@id": PROFILE},
        "hasPart": [{"@id": part["@id"]} for part in [*files, *folders]],
        "mentions": [{"@id": action["@id"]} for action in actions],
    }
    stated = "; ".join(licences) or "not stated"
    graph = [
        {
            "@id": NAME,
            "@type": "CreativeWork",
            "about": {"@id": "./"},
            "conformsTo": {"@id": "https://w3id.org/ro/crate/1.1"},
        },
        root,
        {"@id": "#licences", "@type": "CreativeWork", "name": "Licences of the sources", "description": stated},
        {"@id": PROFILE, "@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"},
        {"@id": "#smelt", "@type": "SoftwareApplication", "name": "smelt", "softwareVersion": __version__},
        *files,
        *folders,
        *actions,
    ]
    return {"@context": "https://w3id.org/ro/crate/1.1/context", "@graph": graph}


def _file(name: str, size: int | None) -> dict[str, Any]:
    title, kind = TOP[name]
    about = {"@id": name, "@type": "File", "name": title, "encodingFormat": kind}
    return about if size is None else {**about, "contentSize": str(size)}


def _place(ref: str) -> str:
    return f"nodes/{ref}/"


def _folder(node: Manifest) -> dict[str, Any]:
    return {"@id": _place(f"{node.stage}/{node.id}"), "@type": "Dataset", "name": f"{node.stage} {node.id}"}


def _action(node: Manifest) -> dict[str, Any]:
    """When and from what the node was made. What stands upstream but not in the archive (of another experiment) is not named."""
    started = datetime.fromisoformat(node.provenance["started"])
    ended = started + timedelta(seconds=round(node.provenance["seconds"]))
    refs = [ref for given in node.upstream.values() for ref in ([given] if isinstance(given, str) else given)]
    return {
        "@id": f"#{node.stage}/{node.id}",
        "@type": "CreateAction",
        "name": f"smelt {node.stage}",
        "description": f"Stage {node.stage}, node {node.id}, at commit {node.provenance.get('commit') or 'unknown'}",
        "instrument": {"@id": "#smelt"},
        **({"object": _one_or_all([{"@id": _place(ref)} for ref in dict.fromkeys(refs)])} if refs else {}),
        "result": {"@id": _place(f"{node.stage}/{node.id}")},
        "startTime": started.isoformat(),
        "endTime": ended.isoformat(),
    }


def _one_or_all(values: list[dict[str, str]]) -> list[dict[str, str]] | dict[str, str]:
    """JSON-LD as RO-Crate likes it: a single value stands without brackets."""
    return values[0] if len(values) == 1 else values
