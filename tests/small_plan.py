"""A whole configuration of a few lines, and nodes as finished stages would have left them: for tests of the spine without stages."""

import copy
import json
from pathlib import Path
from typing import Any

import yaml

from smelt.plan.identity import code_modules
from smelt.plan.manifest import FORMAT, Manifest, listing, sha256_file, sha256_text, to_json
from smelt.plan.plan import Node, Plan
from smelt.plan.view import make, spec_text

CHECKSUM = "0" * 64
SMALL: dict[str, Any] = {
    "corpora": {
        "en": {"sources": [{"kind": "url", "url": "https://a.example/en.txt", "sha256": CHECKSUM}], "format": "lines"}
    },
    "tokenizers": {"bpe": {"vocab_size": 2000}},
    "models": {
        "mini": {
            "hidden_size": 64,
            "num_attention_heads": 4,
            "num_hidden_layers": 2,
            "max_position_embeddings": 128,
        }
    },
    "pretraining": {"short": {"sequence_length": 64, "max_steps": 10}},
    "tasks": {
        "reviews": {
            "kind": "classification",
            "sources": [{"kind": "url", "url": "https://a.example/reviews.tsv", "sha256": CHECKSUM}],
            "format": "table",
            "label": {"by": "column", "column": "label"},
        }
    },
    "finetuning": {"sentiment": {"task": "reviews"}},
    "benchmarks": {"speed": {}},
    "experiments": {
        "first": {
            "corpus": "en",
            "tokenizer": "bpe",
            "model": "mini",
            "pretraining": "short",
            "finetuning": ["sentiment"],
            "benchmark": "speed",
        }
    },
}


def small() -> dict[str, Any]:
    """A copy to change."""
    return copy.deepcopy(SMALL)


def write(folder: Path, data: Any, name: str = "config.yaml") -> Path:
    """`data` as YAML, or as it is if it is text."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(data if isinstance(data, str) else yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    return path


def load(folder: Path, *layers: Any) -> Plan:
    """The plan of some configurations laid over each other."""
    return Plan.load([write(folder, layer, f"layer{number}.yaml") for number, layer in enumerate(layers)])


def finish(plan: Plan, results: Path, *, views: bool = True) -> None:
    """Leave every node of the plan as its stage would: one small file, manifest and provenance; then the views."""
    for node in plan.nodes.values():
        finish_node(node, results)
    for name, refs in plan.experiments.items() if views else ():
        make(spec_text(name, sorted(refs)), results / "experiments" / name / "experiment.json")


def finish_node(
    node: Node, results: Path, facts: dict[str, Any] | None = None, started: str = "2026-01-01T00:00:00Z"
) -> Manifest:
    folder = results / node.ref
    folder.mkdir(parents=True, exist_ok=True)
    names = {"report": "report.html", "archive": f"{node.label}.tar.zst"}
    name = names.get(node.stage, "data.txt")
    (folder / name).write_text(f"product of {node.ref}\n")
    content = to_json(
        {
            "format": FORMAT,
            "stage": node.stage,
            "node": node.id,
            "settings": node.settings,
            "upstream": node.upstream,
            "files": listing(folder, [name]),
            "facts": facts or {},
        }
    )
    (folder / "manifest.json").write_text(content)
    inputs = {above: sha256_file(results / above / "manifest.json") for above in node.above}
    how = {"spec": node.spec, "inputs": inputs, "code": code_modules(node.stage), "manifest": sha256_text(content)}
    (folder / "provenance.json").write_text(to_json({**how, "seconds": 2.0, "started": started}))
    return Manifest.read(folder / "manifest.json")


def alter(path: Path, **changes: Any) -> None:
    """Change keys of a JSON file."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def tree_digest(folder: Path) -> str:
    """Of every name, link and content below `folder`."""
    lines = []
    for path in sorted(folder.rglob("*")):
        what = str(path.readlink()) if path.is_symlink() else sha256_file(path) if path.is_file() else "folder"
        lines.append(f"{path.relative_to(folder)} {what}")
    return sha256_text("\n".join(lines))
