"""What smelt's planning costs: `snakemake -n` of 100 experiments against Snakemake alone on the same jobs.

    python benchmarks/workflow.py [--experiments N] [--repeats N]

Both sides run the same rule files on the same nodes, edges, threads and resources, with the same --configfile (which
Snakemake reads by itself). Ours works out every node from it, digests the code, and compares with what is there; the peer
looks edges and needs up in a JSON file, and its specs are empty. Two states are measured: nothing made yet, and everything made (manifests and provenance as stages leave them).
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import record
import yaml

from smelt.plan import identity, records, resources
from smelt.plan.manifest import FORMAT, listing, sha256_file, sha256_text, to_json
from smelt.plan.plan import Plan
from smelt.plan.view import make, spec_text

ROOT = Path(__file__).resolve().parents[1]
OURS = ROOT / "Snakefile"
PEER_NAME = f"snakemake {version('snakemake')} on the same DAG with empty specs"
NEEDS = ("threads", "memory", "minutes", *resources.REST)
PEER = """
import json
from types import SimpleNamespace

PLAN = json.load(open("plan.json"))
node = lambda stage, file: f"results/{stage}/{{id}}/{file}"
spec = lambda stage: lambda wildcards: ""
upstream = lambda stage: lambda wildcards: PLAN["above"][f"{stage}/{wildcards.id}"]
need = lambda stage, what: lambda wildcards: PLAN["needs"][f"{stage}/{wildcards.id}"][what]
rules_of = SimpleNamespace(view=lambda name: SimpleNamespace(nodes=PLAN["experiments"][name], spec_text=""))

wildcard_constraints:
    id=r"[A-Za-z0-9][A-Za-z0-9_.\\-]*-[0-9a-f]{10}",
    experiment=r"[A-Za-z0-9][A-Za-z0-9_.\\-]*",

rule all:
    input:
        [f"results/experiments/{name}/experiment.json" for name in PLAN["experiments"]],

"""
"""The head of the peer's Snakefile; the rule files of smelt follow."""


def configuration(experiments: int) -> dict[str, Any]:
    """Experiments that share corpora, tokenizers, shards and tasks as a study would, some twelve jobs each."""
    checksum = "0" * 64
    groups = max(1, experiments // 5)

    def source(name: str) -> list[dict[str, str]]:
        return [{"kind": "url", "url": f"https://data.example/{name}.gz", "sha256": checksum}]

    label = {"by": "column", "column": "label"}
    return {
        "corpora": {f"text{i}": {"sources": source(f"text{i}"), "format": "lines"} for i in range(groups)},
        "tokenizers": {f"bpe{i}": {"vocab_size": 4000 + 1000 * i} for i in range(2)},
        "models": {"mini": {"hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 4}},
        "pretraining": {
            "steps": {"each": {"seed": list(range(10)), "learning_rate": [i * 1e-4 for i in range(1, 11)]}}
        },
        "tasks": {
            f"task{i}": {"kind": "classification", "sources": source(f"task{i}"), "format": "table", "label": label}
            for i in range(5)
        },
        "finetuning": {f"tuned{i}": {"task": f"task{i}"} for i in range(5)},
        "benchmarks": {"speed": {}},
        "experiments": {
            f"trial{i}": {
                "corpus": f"text{i % groups}",
                "tokenizer": f"bpe{i // groups % 2}",
                "model": "mini",
                "pretraining": f"steps-seed{i % 10}-learning_rate{(i // 10 % 10 + 1) * 1e-4}",
                "finetuning": [f"tuned{i % 5}"],
                "benchmark": "speed",
            }
            for i in range(experiments)
        },
    }


def prepare(folder: Path, experiments: int) -> Plan:
    """The configuration of ours and the JSON of the peer in `folder`; returns the plan."""
    (folder / "config").mkdir(parents=True)
    file = folder / "config" / "config.yaml"
    file.write_text(yaml.safe_dump(configuration(experiments), sort_keys=False))
    plan = Plan.load([file])
    (folder / "plan.json").write_text(
        json.dumps(
            {
                "above": {
                    ref: [f"results/{above}/manifest.json" for above in node.above] for ref, node in plan.nodes.items()
                },
                "needs": {
                    ref: {what: resources.need(plan, node, what) for what in NEEDS} for ref, node in plan.nodes.items()
                },
                "experiments": {name: sorted(refs) for name, refs in plan.experiments.items()},
            }
        )
    )
    rules = sorted(path for path in (ROOT / "workflow" / "rules").glob("*.smk"))
    (folder / "Snakefile").write_text(PEER + "".join(f'include: "{path}"\n' for path in rules))
    return plan


def make_everything(plan: Plan, results: Path) -> None:
    """Two small files, manifest and provenance of every node, and the views, as the workflow leaves them."""
    for ref, node in plan.nodes.items():
        folder = results / ref
        folder.mkdir(parents=True)
        for name in ("a.bin", "b.bin"):
            (folder / name).write_text(ref)
        manifest = {"format": FORMAT, "stage": node.stage, "node": node.id, "settings": node.settings}
        manifest |= {"upstream": node.upstream, "files": listing(folder, ["a.bin", "b.bin"]), "facts": {}}
        content = to_json(manifest)
        (folder / "manifest.json").write_text(content)
        inputs = {above: sha256_file(results / above / "manifest.json") for above in node.above}
        proof = {"spec": node.spec, "inputs": inputs, "code": identity.code_modules(node.stage), "seconds": 1.0}
        (folder / "provenance.json").write_text(to_json({**proof, "manifest": sha256_text(content)}))
    for name, refs in plan.experiments.items():
        make(spec_text(name, sorted(refs)), results / "experiments" / name / "experiment.json")


def remember_run(plan: Plan, folder: Path) -> None:
    """Snakemake's own records of the peer, as after a run of it."""
    writer = records._Writer(folder / ".snakemake")

    def write(rule: str, output: str, above: list[str]) -> None:
        digests = {ref: sha256_file(folder / "results" / ref / "manifest.json") for ref in above}
        writer.write(rule, Path("results"), output, "", above, digests)

    for ref, node in plan.nodes.items():
        write(node.stage, f"results/{ref}/manifest.json", node.above)
    for name, refs in plan.experiments.items():
        write("experiment", f"results/experiments/{name}/experiment.json", sorted(refs))


def dry_run(snakefile: Path, folder: Path, jobs: int) -> float:
    """Seconds of one `snakemake -n`, start and end of Python included. Raises SystemExit if it is not of so many jobs."""
    command = [
        sys.executable,
        "-m",
        "snakemake",
        "-s",
        str(snakefile),
        "--directory",
        str(folder),
        "-n",
        "--cores",
        "1",
    ]
    command += ["--configfile", str(folder / "config" / "config.yaml"), "--rerun-triggers", "mtime", "params", "input"]
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    seconds = time.perf_counter() - started
    found = next((line.split()[1] for line in done.stdout.splitlines() if line.startswith("total ")), "0")
    if done.returncode or int(found) != jobs:
        raise SystemExit(f"{' '.join(command)}: {found} jobs\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return seconds


def compare(name: str, ours: Path, peer: Path, repeats: int, jobs: int) -> dict[str, Any]:
    """A row of the record: medians of both sides, and the median of the ratios of the rounds."""
    sides = {"ours": lambda: dry_run(OURS, ours, jobs), "theirs": lambda: dry_run(peer / "Snakefile", peer, jobs)}
    seconds = record.interleaved(sides, repeats)
    medians = {side: statistics.median(each) for side, each in seconds.items()}
    ratio = statistics.median(a / b for a, b in zip(seconds["ours"], seconds["theirs"], strict=True))
    print({side: [round(each, 2) for each in all_] for side, all_ in seconds.items()})
    command = f"python benchmarks/workflow.py --repeats {repeats}"
    return record.row(name, medians["ours"], PEER_NAME, medians["theirs"], "s", "lower", command, ratio)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--experiments", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        ours, peer = Path(scratch, "ours"), Path(scratch, "peer")
        plan = prepare(ours, arguments.experiments)
        shutil.copytree(ours, peer)
        jobs = len(plan.nodes) + len(plan.experiments) + 1
        print(f"{arguments.experiments} experiments, {jobs} jobs")
        rows = [compare(f"workflow-dryrun-{arguments.experiments}", ours, peer, arguments.repeats, jobs)]
        make_everything(plan, ours / "results")
        shutil.copytree(ours / "results", peer / "results", symlinks=True)
        remember_run(plan, peer)
        rows.append(compare(f"workflow-noop-{arguments.experiments}", ours, peer, arguments.repeats, 0))
    record.write("workflow", rows)


if __name__ == "__main__":
    main()
