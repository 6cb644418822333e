"""The sections on fine-tuning, one for each task: curves, scores beside their references, confusion, answers."""

from typing import Any

from smelt.plan.manifest import Manifest
from smelt.plan.settings.report import Report
from smelt.report.blocks import Column, Matrix, MatrixCell, Samples, Section, Table, Terms, Turn
from smelt.report.curves import loss_chart
from smelt.report.nodes import Nodes, label
from smelt.report.numbers import number
from smelt.report.scores import ONE_RUN, Row, measured_figures, own, references, table_of

SCRATCH = "the same network from random weights"


def task_sections(nodes: Nodes, settings: Report) -> list[Section]:
    """A section for each task node that something was fine-tuned on."""
    sections = []
    for task in sorted(nodes.of("task"), key=lambda node: node.facts["kind"]):
        trained = nodes.below(task, "finetune")
        if trained:
            about = {
                "classification": "Labelled texts: a label for each.",
                "dialogue": "Dialogue: an answer to each prompt.",
            }
            blocks = _blocks(nodes, trained, settings)
            sections.append(
                Section(f"task-{task.id}", f"Task: {label(task)}", blocks, about.get(task.facts.get("kind", ""), ""))
            )
    return sections


def from_scratch(node: Manifest) -> bool:
    """Whether a finetune node began at random weights: a reference for what pretraining is worth."""
    return node.settings.get("init") == "random"


def _runs(trained: list[Manifest]) -> Table:
    columns = [
        Column("run", False),
        Column("method", False),
        Column("starts from", False),
        Column("trained parameters"),
    ]
    columns += [Column("of the network"), Column("from", False)]
    rows = []
    for node in trained:
        facts = node.facts
        count, total = facts.get("trainable_parameters"), facts.get("parameters")
        start = "random weights" if from_scratch(node) else "the pretrained model"
        method = {"full": "all weights", "lora": "LoRA"}.get(facts["method"], facts["method"])
        share = f"{100 * count / total:.1f} %" if count and total else None
        rows.append([label(node), method, start, None if count is None else number(count), share, node])
    if all(row[4] is None for row in rows):
        columns.pop(4)
        rows = [[*row[:4], row[5]] for row in rows]
    return Table("Runs", columns, rows, trained)


def _blocks(nodes: Nodes, trained: list[Manifest], settings: Report) -> list[Any]:
    measured = [(node, found) for node in trained for found in nodes.below(node, "evaluate")]
    blocks: list[Any] = [_runs(trained)]
    if measured:
        blocks.append(_scores(measured))
    if chart := loss_chart("Loss while fine-tuning", [(label(node), node) for node in trained], settings.curve_points):
        blocks.append(chart)
    for node, found in measured:
        if "confusion" in found.facts and not from_scratch(node):
            blocks.append(confusion(f"Confusion of {label(node)}", found))
        if pairs := measured_figures(found):
            blocks.append(Terms(f"Measured on {label(node)}", pairs, [found], ONE_RUN))
        if found.facts.get("samples"):
            blocks.append(_samples(f"Answers of {label(node)}", found, settings.samples))
    return blocks


def _scores(measured: list[tuple[Manifest, Manifest]]) -> Table:
    """Models first, then networks from random weights, then the references (which models of one task share)."""
    rows, seen = [], set()
    for node, found in sorted(measured, key=lambda pair: from_scratch(pair[0])):
        name = f"{label(node)} ({SCRATCH})" if from_scratch(node) else label(node)
        rows.append(Row(name, found, own(found), strong=not from_scratch(node)))
    for _, found in measured:
        for name, given in references(found).items():
            key = (name, *((figure["metric"], figure["split"], figure["value"]) for figure in given))
            if key not in seen:
                seen.add(key)
                rows.append(Row(name, found, given))
    columns, cells, strong = table_of(rows)
    intervals = any(figure.get("interval") for row in rows for figure in row.figures)
    note = "Brackets hold the 95 % interval; the bar shows the value, its line the interval." if intervals else ""
    return Table("Scores on held-out data", columns, cells, [found for _, found in measured], note, strong)


def confusion(title: str, node: Manifest) -> Matrix:
    """`facts["confusion"]`: {"labels", "matrix"[true][predicted]}."""
    given = node.facts["confusion"]
    rows = []
    for counts in given["matrix"]:
        total = sum(counts)
        rows.append([MatrixCell(count, count / total if total else 0.0) for count in counts])
    return Matrix(
        title,
        given["labels"],
        rows,
        [node],
        "Rows: the true label. Columns: the predicted one. Shade: share of the row.",
    )


def _samples(title: str, node: Manifest, most: int) -> Samples:
    return Samples(
        title,
        [turns(sample) for sample in node.facts["samples"][:most]],
        [node],
        "Chosen by position in the test split, not by quality.",
    )


def turns(sample: dict[str, Any]) -> list[Turn]:
    """A sample is {"messages": [{"role", "content"}…], "answer", "reference"}."""
    found = [Turn(message["role"], message["content"]) for message in sample["messages"]]
    found.append(Turn("model", sample["answer"]))
    if sample.get("reference"):
        found.append(Turn("in the data", sample["reference"], kept=True))
    return found
