"""Archive: one file of an experiment that anyone can check, and whose bytes follow from its content.

Upstream roles `nodes` (all but the report) and `report`. Leaves `<experiment>.tar.zst` and `SHA256SUMS`, which lists the
archive itself and, under its folder, every file in it: `sha256sum -c --ignore-missing SHA256SUMS` checks the packed file and
whatever of it is unpacked beside it. Host names, logins and keys in addresses and paths of the home folder stay out.
"""

from pathlib import Path

from smelt.archive import bundle, sums
from smelt.archive.code import Code, code
from smelt.archive.contents import Contents, environment, final, licences, model, readme
from smelt.archive.crate import NAME as CRATE
from smelt.archive.crate import metadata
from smelt.archive.entry import Entry
from smelt.plan.errors import DataError
from smelt.plan.job import Job, Product
from smelt.plan.manifest import Manifest, sha256_file, to_json, write_atomically
from smelt.plan.progress import Progress
from smelt.plan.provenance import ROOT
from smelt.plan.settings.archive import Archive

CONFIGURATION = "configuration.yaml"


def run(job: Job) -> Product:
    settings = Archive.model_validate(job.settings["archive"])
    experiment = job.settings["experiment"]
    if "/" in experiment or experiment.startswith("."):
        raise DataError(f"experiment {experiment!r}: can't name a file; rename the experiment")
    found = code(ROOT) if settings.include_code else Code()
    for name in found.left_out:
        job.say(f"left out of the code, since it is no file within the checkout: {name}")
    nodes = sorted({node.path: node for node in job.inputs["nodes"]}.values(), key=lambda node: (node.stage, node.id))
    models = [node for node in nodes if final(node)] if settings.include_model else []
    entries = _entries(job, experiment, nodes, models, found)
    packed = job.directory / f"{experiment}.tar.zst"
    with Progress(job, sum(entry.size for entry in entries), "bytes") as progress:
        bundle.write(packed, experiment, entries, settings.compression_level, progress.update)
    inside = {f"{experiment}/{entry.name}": entry.sha256 for entry in entries}
    write_atomically(job.directory / sums.NAME, sums.table({packed.name: sha256_file(packed), **inside}))
    job.say(f"{packed.name}: {len(entries)} files, {packed.stat().st_size:,} bytes")
    facts = {
        "experiment": experiment,
        "files": len(entries),
        "unpacked_bytes": sum(entry.size for entry in entries),
        "models": [f"{node.stage}/{node.id}" for node in models],
        "code_left_out": found.left_out,
    }
    return Product([packed.name, sums.NAME], facts)


def _entries(job: Job, experiment: str, nodes: list[Manifest], models: list[Manifest], found: Code) -> list[Entry]:
    """All files of the archive; the tables of its files last, since they list the others."""
    contents = Contents(job.results.parent.absolute(), Path.home())
    report = job.input("report")
    entries = [
        contents.configuration(CONFIGURATION, job.settings["configuration"]),
        contents.text("README.md", readme(experiment, bool(found.entries), bool(models))),
        *environment(ROOT),
        *contents.page(report),
        *(entry for node in [*nodes, report] for entry in contents.node(node)),
        *(entry for node in models for entry in model(node)),
        *found.entries,
    ]
    entries.append(Entry.of_text(CRATE, to_json(metadata(experiment, [*nodes, report], entries, licences(nodes)))))
    return [*entries, Entry.of_text(sums.NAME, sums.table({entry.name: entry.sha256 for entry in entries}))]
