"""What stands at the top of the page: a paragraph and a few figures, both taken from the nodes' facts."""

from typing import Any

from smelt.plan.manifest import Manifest
from smelt.report.blocks import Headline
from smelt.report.nodes import Nodes, label, timed
from smelt.report.numbers import compact, duration, number, reading, share, size, words
from smelt.report.scores import first_of, own, references
from smelt.report.tasks import SCRATCH, from_scratch

LANGUAGE_MODEL = ("bits per byte", "perplexity")
CLASSIFIER = ("accuracy", "macro-F1")
METRICS = {"language-model": LANGUAGE_MODEL, "classification": CLASSIFIER, "dialogue": ("perplexity",)}
"""Kind of evaluation → what stands for it at the top, the first that it has."""
LATENCY = ("answer latency p50",)


def paragraph(nodes: Nodes) -> str:
    """What was done and what came out, in a few plain sentences."""
    sentences = [*_data_sentences(nodes), *_model_sentences(nodes)]
    sentences += [sentence for node in _evaluations(nodes) if (sentence := _result_sentence(nodes, node))]
    total = sum(node.provenance.get("seconds", 0.0) for node in nodes.all)
    sentences.append(f"Making its {len(nodes.all)} nodes took {duration(total)} of work.")
    return " ".join(sentences)


def _evaluations(nodes: Nodes) -> list[Manifest]:
    """Those of language models first, then of labels, then of dialogue."""
    kinds = ("language-model", "classification", "dialogue")
    return sorted(
        nodes.of("evaluate"),
        key=lambda node: kinds.index(kind) if (kind := node.facts["kind"]) in kinds else len(kinds),
    )


def _data_sentences(nodes: Nodes) -> list[str]:
    found = []
    for node in nodes.of("corpus"):
        documents, length = node.facts["documents"], node.facts["bytes"]
        found.append(
            f"The corpus {label(node)} holds {number(sum(documents.values()))} documents, {size(sum(length.values()))} of text."
        )
    for node in nodes.of("tokenizer"):
        found.append(
            f"Its tokens come from a {node.facts['kind']} vocabulary of {number(node.facts['vocab_size'])} pieces."
        )
    return found


def _model_sentences(nodes: Nodes) -> list[str]:
    return [
        f"The language model {label(node)} has {compact(node.facts['parameters'])} parameters and was trained for "
        f"{number(node.facts['steps'])} steps on {compact(node.facts['tokens'])} tokens."
        for node in nodes.of("pretrain")
    ]


def _result_sentence(nodes: Nodes, node: Manifest) -> str:
    trained = nodes.above(node, "finetune")
    best = first_of(own(node), *METRICS.get(node.facts["kind"], ()))
    if best is None or (trained and from_scratch(trained)):
        return ""
    others = [f"{name} {value}" for name, value in _others(nodes, node, best["metric"])]
    beside = f" ({'; '.join(others)})" if others else ""
    who = f"Fine-tuned as {label(trained)}, it" if trained else "On held-out text it"
    return f"{who} reaches {_value(best)} {words(best['metric'])}{beside}."


def _scratch_of(nodes: Nodes, node: Manifest) -> Manifest | None:
    """The evaluation of the sibling that was trained from random weights: the same settings but for `init`."""
    trained = nodes.above(node, "finetune")
    if trained is None or from_scratch(trained):
        return None
    for other in nodes.of("evaluate"):
        sibling = nodes.above(other, "finetune")
        if (
            sibling
            and sibling.upstream == trained.upstream
            and sibling.settings == {**trained.settings, "init": "random"}
        ):
            return other
    return None


def _value(figure: dict[str, Any]) -> str:
    if words(figure["metric"]) in CLASSIFIER and 0 <= figure["value"] <= 1:
        return share(figure["value"])
    return reading(figure)


def headlines(nodes: Nodes) -> list[Headline]:
    """At most one card for the language model, one for each fine-tuned model, and what it cost."""
    found = [card for node in _evaluations(nodes) for card in _cards(nodes, node)]
    for node in nodes.of("pretrain"):
        seconds = node.provenance.get("seconds")
        took = f" in {duration(seconds)}" if seconds else ""
        beside = f"{number(node.facts['steps'])} steps on {compact(node.facts['tokens'])} tokens{took}"
        found.append(Headline("parameters", compact(node.facts["parameters"]), beside, node))
    return found


def _cards(nodes: Nodes, node: Manifest) -> list[Headline]:
    """One card; none for a reference from random weights, or where nothing stands for the whole."""
    trained = nodes.above(node, "finetune")
    best = first_of(own(node), *METRICS.get(node.facts["kind"], ()))
    if best is None or (trained and from_scratch(trained)):
        return []
    beside = [f"{who} {value}" for who, value in _others(nodes, node, best["metric"])]
    if latency := first_of(timed(node), *LATENCY):
        beside.append(f"an answer in {reading(latency)} (median)")
    name = words(best["metric"]) + (f", {label(trained)}" if trained else "")
    return [Headline(name, _value(best), "; ".join(beside), node)]


def _others(nodes: Nodes, node: Manifest, metric: str) -> list[tuple[str, str]]:
    """(name, value) of all that the model is to be compared with."""
    found = [(name, _value(other)) for name, given in references(node).items() if (other := first_of(given, metric))]
    scratch = _scratch_of(nodes, node)
    if scratch and (other := first_of(own(scratch), metric)):
        found.append((SCRATCH, _value(other)))
    return found
