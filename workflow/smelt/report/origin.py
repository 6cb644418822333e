"""The sections on speed (benchmark nodes) and on where every figure comes from: nodes, code, software, machine, settings."""

from collections import Counter
from typing import Any

from smelt.plan.manifest import Manifest, to_json
from smelt.plan.redaction import public_values
from smelt.report.blocks import Bar, Column, Section, Table, Terms
from smelt.report.nodes import Nodes, anchor, measurements, upstream_refs
from smelt.report.numbers import duration, number

BENCHMARK = (
    ("precision", "precision", False),
    ("method", "method", False),
    ("tokens_per_second", "tokens/s", True),
    ("seconds_per_batch", "s/batch", True),
    ("peak_memory_mb", "peak memory, MB", True),
    ("batch", "batch", True),
    ("sequence_length", "sequence", True),
    ("repeats", "repeats", True),
)
"""Key of a benchmark row, name of its column, numeric."""


def speed_section(nodes: Nodes) -> list[Section]:
    blocks = [_speeds(node) for node in nodes.of("benchmark")]
    return (
        [Section("speed", "Speed and memory", blocks, "Training steps of the converted model on its own text, timed.")]
        if blocks
        else []
    )


def _speeds(node: Manifest) -> Table:
    measured = measurements(node)
    given = measured.get("rows", [])
    columns = [Column(name, numeric) for _, name, numeric in BENCHMARK] + [
        Column("speed against the first row"),
        Column("note", False, kind="prose"),
    ]
    most = max((row["ratio"] for row in given if row.get("ratio") is not None), default=1) or 1
    rows = []
    for row in given:
        ratio = row.get("ratio")
        cells: list[Any] = [None if row.get(key) is None else number(row[key]) for key, _, _ in BENCHMARK]
        cells.append(None if ratio is None else Bar(f"× {number(ratio)}", ratio / most))
        rows.append([*cells, row.get("note") or ""])
    device = measured.get("device")
    note = "Medians over repeats that take turns." + (f" Device: {device}." if device else "")
    return Table("Training speed by precision and method", columns, rows, [node], note)


def origin_section(nodes: Nodes) -> Section:
    blocks: list[Any] = [_made(nodes), *_software(nodes)]
    return Section(
        "origin",
        "Where the figures come from",
        blocks,
        "Each node is a folder results/<stage>/<id> with a manifest and its provenance.",
    )


def _made(nodes: Nodes) -> Table:
    columns = [
        Column("node", False),
        Column("made from", False, kind="refs"),
        Column("started (UTC)", False, kind="still"),
        Column("took"),
        Column("commit", False, kind="still"),
    ]
    columns += [Column("on", False, kind="still")]
    longest = max((node.provenance.get("seconds", 0.0) for node in nodes.all), default=0.0) or 1.0
    rows = []
    for node in nodes.all:
        how = node.provenance
        seconds = how.get("seconds", 0.0)
        rows.append(
            [
                node,
                ", ".join(upstream_refs(node)) or "–",
                str(how.get("started", "")).replace("T", " ").rstrip("Z"),
                Bar(duration(seconds), seconds / longest),
                commit_of(node),
                _device(how),
            ]
        )
    total = sum(node.provenance.get("seconds", 0.0) for node in nodes.all)
    note = f"All nodes together took {duration(total)}; some ran at the same time. Nodes that were current were not made again."
    return Table("Nodes", columns, rows, nodes.all, note)


def _device(how: dict[str, Any]) -> str:
    """`2 × NVIDIA H100`, or `CPU, 2 threads`."""
    counts = Counter(how.get("devices") or [])
    if counts:
        return ", ".join(f"{count} × {name}" if count > 1 else name for name, count in sorted(counts.items()))
    threads = how.get("threads", 1)
    return f"CPU, {threads} thread" + ("s" if threads != 1 else "")


def commit_of(node: Manifest) -> str:
    """Short commit, and whether the tree differed from it."""
    how = node.provenance
    if not how.get("commit"):
        return "not in git"
    return how["commit"][:10] + (" + edits" if how.get("modified") else "")


def _software(nodes: Nodes) -> list[Terms]:
    """One block for each distinct set of versions; usually one."""
    groups: dict[tuple[tuple[str, str], ...], list[Manifest]] = {}
    for node in nodes.all:
        how = node.provenance
        pairs = [
            ("Python", how.get("python", "")),
            ("system", how.get("system", "")),
            ("CPUs", str(how.get("cpus", ""))),
        ]
        pairs += [("lock", str(how["lock"])[:16])] if how.get("lock") else []
        pairs += sorted((how.get("packages") or {}).items())
        groups.setdefault(tuple(pairs), []).append(node)
    several = len(groups) > 1
    return [
        Terms(
            "Software and machine" + (f" {index}" if several else ""),
            list(pairs),
            found,
            "Set by the lock in envs/.",
            wide=True,
        )
        for index, (pairs, found) in enumerate(groups.items(), 1)
    ]


def settings_of(nodes: Nodes) -> list[dict[str, Any]]:
    """The appendix: every node's settings, as hashed into its id."""
    return [
        {
            "anchor": anchor(node),
            "node": node,
            "settings": to_json(public_values(node.settings)).strip(),
            "files": node.files,
        }
        for node in nodes.all
    ]
