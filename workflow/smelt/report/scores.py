"""Tables of scores: what a model reaches, beside its references on the same data."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from smelt.plan.manifest import Manifest
from smelt.report.blocks import Bar, Column
from smelt.report.nodes import figures, timed
from smelt.report.numbers import number, reading, words

MODEL = None
"""The `reference` of a figure that is the model's own."""
ONE_RUN = "Timings of one run on one machine."
ORDER = ("accuracy", "macro-F1", "bits per byte", "perplexity")
"""Metrics that come first, since a reader looks for them."""


@dataclass(frozen=True)
class Row:
    """One line of a table of scores: the figures of one model or reference, all of one node."""

    name: str
    node: Manifest
    figures: Sequence[dict[str, Any]]
    strong: bool = False


def own(node: Manifest) -> list[dict[str, Any]]:
    """The figures of the model itself, without what was timed."""
    return [figure for figure in node.facts.get("figures", []) if figure.get("reference") is MODEL]


def references(node: Manifest) -> dict[str, list[dict[str, Any]]]:
    """Reference name → its figures, in the order in which the node names them."""
    found: dict[str, list[dict[str, Any]]] = {}
    for figure in figures(node):
        if figure.get("reference") is not MODEL:
            found.setdefault(str(figure["reference"]), []).append(figure)
    return found


def named(figure: dict[str, Any]) -> str:
    """The metric in words, with what the figure is of beyond its node."""
    return words(figure["metric"]) + (f", {figure['cell']}" if figure.get("cell") else "")


def named_figures(node: Manifest) -> list[tuple[str, str]]:
    """(name with its split, value) of all that the node reports and measured."""
    return [
        (named(figure) + (f" ({figure['split']})" if figure["split"] else ""), reading(figure))
        for figure in figures(node)
    ]


def measured_figures(node: Manifest) -> list[tuple[str, str]]:
    return [(named(figure), reading(figure)) for figure in timed(node)]


def first_of(found: Sequence[dict[str, Any]], *metrics: str) -> dict[str, Any] | None:
    """The first figure that has one of `metrics` (in words), the test split before others."""
    for metric in metrics:
        fitting = [figure for figure in found if words(figure["metric"]) == words(metric)]
        if fitting:
            return next((figure for figure in fitting if figure["split"] == "test"), fitting[0])
    return None


def _key(figure: dict[str, Any]) -> tuple[str, str]:
    return words(figure["metric"]), figure["split"]


def table_of(rows: Sequence[Row]) -> tuple[list[Column], list[list[Any]], frozenset[int]]:
    """Columns, cells and emphasised rows: a column for each metric and split, the last one the node that a row is from."""
    keys = list(dict.fromkeys(_key(figure) for row in rows for figure in row.figures))
    keys.sort(key=lambda key: ORDER.index(key[0]) if key[0] in ORDER else len(ORDER))
    units = {_key(figure): figure["unit"] for row in rows for figure in row.figures}
    splits = {split for _, split in keys}
    columns = [Column("", numeric=False)]
    for metric, split in keys:
        name = metric + (f" ({split})" if len(splits) > 1 and split else "")
        columns.append(Column(name, hint=units[metric, split]))
    columns.append(Column("from", numeric=False))
    cells = []
    for row in rows:
        by_key = {_key(figure): figure for figure in row.figures}
        cells.append([row.name, *(_cell(by_key.get(key), drawn=key == keys[0]) for key in keys), row.node])
    return columns, cells, frozenset(index for index, row in enumerate(rows) if row.strong)


def _cell(figure: dict[str, Any] | None, drawn: bool) -> Any:
    if figure is None:
        return None
    interval = figure.get("interval")
    if not interval:
        return reading(figure)
    low, high = interval
    text = f"{number(figure['value'])} [{low:.3f}, {high:.3f}]"
    if drawn and 0 <= low <= high <= 1:
        return Bar(text, figure["value"], low, high)
    return text
