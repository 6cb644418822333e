"""What an archive holds of an experiment's nodes, and in which place."""

import json
from pathlib import Path
from typing import Any

import yaml

from smelt.archive.entry import Entry
from smelt.plan.manifest import Manifest, to_json
from smelt.plan.redaction import REMOVED, portable

SMALL = ("card.json", "curve.jsonl", "metrics.json")
"""Files of a node that say what came out, small and without text of the corpus."""
MODELS = {"convert": "hf/", "finetune": "model/"}
"""Stage → the folder of its model."""


class Contents:
    """Entries from nodes. Text is made portable: `folder` is where the workflow runs, `home` the home folder of who runs it."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder, self.home = folder, home

    def text(self, name: str, text: str) -> Entry:
        return Entry.of_text(name, portable(text, self.folder, self.home))

    def configuration(self, name: str, configuration: dict[str, Any]) -> Entry:
        """The experiment alone with every setting resolved: a file for `--configfile`."""
        return self.text(name, yaml.safe_dump(configuration, sort_keys=False, allow_unicode=True, width=120))

    def node(self, node: Manifest) -> list[Entry]:
        """Manifest, provenance without the host, and what came out."""
        place = f"nodes/{node.stage}/{node.id}"
        provenance = {**node.provenance, "host": REMOVED}
        found = [
            self.text(f"{place}/manifest.json", to_json(node.data)),
            self.text(f"{place}/provenance.json", to_json(provenance)),
        ]
        return found + [Entry.of_listed(f"{place}/{file}", node, file) for file in SMALL if file in node.files]

    def page(self, report: Manifest) -> list[Entry]:
        """The report and its figures, at the top where a person looks."""
        return [self.text(name, report.file(name).read_text(encoding="utf-8")) for name in sorted(report.files)]


def final(node: Manifest) -> bool:
    """Whether the node's model is a result: converted or fine-tuned, and no reference from random weights."""
    return node.stage in MODELS and node.settings.get("init") != "random"


def model(node: Manifest) -> list[Entry]:
    files = [file for file in sorted(node.files) if file.startswith(MODELS[node.stage])]
    return [Entry.of_listed(f"nodes/{node.stage}/{node.id}/{file}", node, file) for file in files]


def readme(experiment: str, has_code: bool, has_model: bool) -> str:
    """What is in the archive and what to do with it."""
    lines = [
        f"# {experiment}",
        "",
        "An experiment made with smelt.",
        "",
        "- `report.html`: the figures, for people; `summary.json`: the same for programs.",
        "- `configuration.yaml`: the experiment with every setting, to be run again.",
        "- `requirements.txt`: the exact versions of all packages.",
        "- `nodes/<stage>/<id>/`: for each node its manifest (content) and provenance (when, how, with what).",
    ]
    if has_model:
        lines.append(
            "- `nodes/convert/<id>/hf`, `nodes/finetune/<id>/model`: the models, as transformers and peft load them."
        )
    if has_code:
        lines.append("- `code/`: the code as it was.")
    lines += [
        "- `SHA256SUMS`: check with `sha256sum -c SHA256SUMS`, or the packed file with `smelt verify FILE`.",
        "- `ro-crate-metadata.json`: the same in the terms of RO-Crate (https://www.researchobject.org/ro-crate/).",
    ]
    if has_code:
        lines += [
            "",
            "To run it again: `cd code && make setup && . .venv/bin/activate`, then",
            "`snakemake --profile profiles/local --configfile ../configuration.yaml`.",
        ]
    return "\n".join(lines) + "\n"


def environment(root: Path) -> list[Entry]:
    """The lock, under the name that pip users look for; none in a copy without it."""
    lock = root / "envs" / "requirements.txt"
    return [Entry.of_path("requirements.txt", lock)] if lock.exists() else []


def licences(nodes: list[Manifest]) -> list[str]:
    """Of all sources, in their order, as the configuration states them."""
    stated = [source.get("licence", "not stated") for node in nodes for source in node.settings.get("sources", [])]
    return list(dict.fromkeys(json.dumps(each) if not isinstance(each, str) else each for each in stated))
