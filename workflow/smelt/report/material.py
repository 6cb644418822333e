"""The section on what models learn from: corpora, tasks, tokenizers, shards."""

import json
from collections.abc import Mapping
from typing import Any

from smelt.plan.manifest import Manifest
from smelt.plan.redaction import public
from smelt.report.blocks import Bar, Column, Section, Table, Terms
from smelt.report.nodes import Nodes, label
from smelt.report.numbers import number, share, size, words
from smelt.report.scores import named_figures

SIZES = ("documents", "words", "characters", "bytes")
CARD, LONGEST = "card.json", 8
TYPES = {"<u2": "uint16", "<u4": "uint32"}
"""numpy's short names as people know them."""
FEW = 5
"""Labels that get a column of their own."""
SPLITS = ("train", "valid", "test")


def material_sections(nodes: Nodes) -> list[Section]:
    data = [block for node in nodes.of("corpus") for block in _corpus(node)]
    data += [block for node in nodes.of("task") for block in _task(node)]
    data += _sources([*nodes.of("corpus"), *nodes.of("task")])
    tokens = [block for node in nodes.of("tokenizer") for block in _tokenizer(node)] + [
        _shards(node) for node in nodes.of("shards")
    ]
    return [
        Section("data", "Data", data, "Texts as they were kept after cleaning, deduplication and splitting."),
        Section("tokens", "Tokens", tokens, "How text becomes what the network reads."),
    ]


def _splits(counts: Mapping[str, Any]) -> list[str]:
    """train, valid, test first, then any other."""
    return [split for split in SPLITS if split in counts] + sorted(set(counts) - set(SPLITS))


def _corpus(node: Manifest) -> list[Any]:
    facts = node.facts
    columns = [Column("split", False), *(Column(name) for name in SIZES)]
    splits = _splits(facts["documents"])
    rows = [[split, *(_size(name, facts[name][split]) for name in SIZES)] for split in splits]
    rows.append(["all", *(_size(name, sum(facts[name][split] for split in splits)) for name in SIZES)])
    near = facts.get("near copies") or {}
    note = ""
    if near.get("groups"):
        note = f"{number(near['documents'])} documents are near copies of each other, in {number(near['groups'])} groups; no group is in two splits."
    blocks: list[Any] = [Table(f"Corpus {label(node)}", columns, rows, [node], note, frozenset({len(rows) - 1}))]
    return [*blocks, *_dropped(node, "documents", sum(facts["documents"].values()))]


def _size(name: str, count: int) -> str:
    return size(count) if name == "bytes" else number(count)


def _dropped(node: Manifest, what: str, kept: int) -> list[Table]:
    """Reasons and counts; nothing if the node dropped nothing."""
    dropped = {reason: count for reason, count in node.facts.get("dropped", {}).items() if count}
    if not dropped:
        return []
    total = kept + sum(dropped.values())
    most = max(dropped.values())
    rows = [
        [words(reason), number(count), Bar(share(count / total), count / most)]
        for reason, count in sorted(dropped.items(), key=lambda item: (-item[1], item[0]))
    ]
    columns = [Column("reason", False), Column(what), Column(f"of all {what} read")]
    return [
        Table(
            f"Left out of {label(node)}", columns, rows, [node], f"{number(kept)} {what} of {number(total)} were kept."
        )
    ]


def _sources(given: list[Manifest]) -> list[Table]:
    """What the texts are from, as the settings name it; its licence and provenance in the words of the configuration."""
    rows = [
        [name_of(source), source["licence"], source["provenance"] or None, node]
        for node in given
        for source in node.settings["sources"]
    ]
    columns = [
        Column("source", False),
        Column("licence", False),
        Column("provenance", False, kind="prose"),
        Column("of", False),
    ]
    return [Table("Sources and licences", columns, rows, given)] if rows else []


def name_of(source: Mapping[str, Any]) -> str:
    """A release file, an address (never with the user or password of one), or a file at hand."""
    if source["kind"] == "url":
        return public(source["url"])
    return source["release"] if source["kind"] == "package" else source["path"]


def _task(node: Manifest) -> list[Any]:
    facts = node.facts
    labels = facts.get("labels") or []
    columns = [Column("split", False), Column("rows")]
    splits = _splits(facts["rows"])
    rows: list[list[str]] = [[split, number(facts["rows"][split])] for split in splits]
    by_label = facts.get("rows by label") or {}
    if by_label and len(labels) <= FEW:
        columns += [Column(str(name)) for name in labels]
        for row, split in zip(rows, splits, strict=True):
            row += [number(by_label.get(split, {}).get(name, 0)) for name in labels]
    note = f"{facts['kind'].capitalize()}" + (
        f" with {len(labels)} labels: {', '.join(map(str, labels[:20]))}" if labels else ""
    )
    note += ", …." if len(labels) > 20 else "."
    blocks: list[Any] = [Table(f"Task {label(node)}", columns, rows, [node], note)]
    return [*blocks, *_dropped(node, "rows", sum(facts["rows"].values()))]


def _tokenizer(node: Manifest) -> list[Terms]:
    facts = node.facts
    special = ", ".join(f"{name} {number}" for name, number in facts["special_tokens"].items())
    pairs = [("kind", facts["kind"]), ("pieces", number(facts["vocab_size"])), ("special tokens (ids)", special)]
    pairs += named_figures(node)
    if CARD in node.files:
        pieces = json.loads(node.file(CARD).read_text(encoding="utf-8")).get("longest_pieces", [])
        pairs += [("longest pieces", " ".join(pieces[:LONGEST]))] if pieces else []
    return [Terms(f"Tokenizer {label(node)}", pairs, [node])]


def _shards(node: Manifest) -> Table:
    splits = node.facts["splits"]
    columns = [Column("split", False), Column("tokens"), Column("documents"), Column("bytes per token")]
    rows = []
    for split in _splits(splits):
        about = splits[split]
        ratio = number(about["bytes"] / about["tokens"]) if about["tokens"] else None
        rows.append([split, number(about["tokens"]), number(about["documents"]), ratio])
    files = sum(len(about["shards"]) for about in splits.values())
    note = f"{number(files)} LMDB files of {TYPES.get(node.facts['dtype'], node.facts['dtype'])}; each document ends with the end token."
    return Table(f"Shards {label(node)}", columns, rows, [node], note)
