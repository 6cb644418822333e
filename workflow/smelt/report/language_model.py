"""The section on the language model: its curves, its conversion, its scores on held-out text."""

from typing import Any

from smelt.plan.manifest import Manifest
from smelt.plan.settings.report import Report
from smelt.report.blocks import Section, Table, Terms
from smelt.report.curves import loss_chart, rate_chart
from smelt.report.nodes import Nodes, label
from smelt.report.numbers import compact, number
from smelt.report.scores import ONE_RUN, Row, measured_figures, named_figures, own, references, table_of


def model_sections(nodes: Nodes, settings: Report) -> list[Section]:
    blocks: list[Any] = []
    for node in nodes.of("pretrain"):
        charts = [
            loss_chart(f"Loss of {label(node)} while pretraining", [("", node)], settings.curve_points),
            rate_chart("Learning rate", node, settings.curve_points),
        ]
        blocks += [chart for chart in charts if chart]
        blocks.append(_trained(node))
    blocks += [_converted(node) for node in nodes.of("convert")]
    for node in nodes.of("evaluate"):
        if nodes.above(node, "finetune") is None:
            if pairs := measured_figures(node):
                blocks.append(Terms(f"Measured on {label(node)}", pairs, [node], ONE_RUN))
            blocks.append(_scores(node))
    return [Section("model", "Language model", blocks, "Trained from random weights on the corpus alone.")]


def _trained(node: Manifest) -> Terms:
    facts = node.facts
    shape = node.settings["model"]
    pairs = [
        (
            "network",
            f"{shape['architecture']}, {shape['num_hidden_layers']} layers, width {shape['hidden_size']}, {shape['num_attention_heads']} heads",
        ),
        ("parameters", number(facts["parameters"])),
        ("steps", number(facts["steps"])),
        ("tokens seen", compact(facts["tokens"])),
    ]
    if facts.get("skipped_steps"):
        pairs.append(("steps without effect (not finite)", number(facts["skipped_steps"])))
    if facts.get("final_loss") is not None:
        pairs.append(("training loss at the end", f"{number(facts['final_loss'])} nats per token"))
    pairs += named_figures(node)
    return Terms(f"Pretraining of {label(node)}", pairs, [node])


def _converted(node: Manifest) -> Terms:
    facts = node.facts
    pairs = [
        ("largest difference of logits", number(facts["parity"])),
        ("allowed", number(facts["parity_tolerance"])),
        ("tokens compared", number(facts["parity_tokens"])),
        ("embeddings tied", "yes" if facts["tied"] else "no"),
        ("weights stored as", facts["dtype"]),
        ("parameters", number(facts["parameters"])),
    ]
    note = "The converted directory computes what the training weights computed, on real text."
    return Terms(f"Conversion of {label(node)}", pairs, [node], note)


def _scores(node: Manifest) -> Table:
    rows = [Row(label(node), node, own(node), strong=True)]
    rows += [Row(name, node, given) for name, given in references(node).items()]
    columns, cells, strong = table_of(rows)
    scored = node.facts["scored"]
    note = (
        f"On {number(scored['tokens'])} tokens of {number(scored['documents'])} test documents, seen {number(node.facts['sequence_length'])} "
        f"at a time, moved by {number(node.facts['stride'])}. "
        "Bits per byte do not depend on the tokenizer, so they can be set against other models on the same text."
    )
    return Table("Scores on held-out text", columns, cells, [node], note, strong)
