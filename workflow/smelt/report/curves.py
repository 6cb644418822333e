"""Training curves: `curve.jsonl` of pretrain and finetune nodes as lines of a chart."""

import json
import math
from typing import Any

from smelt.plan.errors import DataError
from smelt.plan.manifest import Manifest
from smelt.report.blocks import Picture
from smelt.report.chart import Series, line_chart, thinned

CURVE = "curve.jsonl"
VALID = "valid_loss"


def rows_of(node: Manifest) -> list[dict[str, Any]]:
    """The rows of the node's curve, none if it keeps no curve. Raises DataError naming the line that is not JSON."""
    if CURVE not in node.files:
        return []
    path = node.file(CURVE)
    rows = []
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                rows.append(json.loads(line))
            except json.JSONDecodeError as error:
                raise DataError(
                    f"{path}: line {number}: not JSON ({error}); delete the node's manifest to make it again"
                ) from None
    return rows


def points(rows: list[dict[str, Any]], key: str) -> list[tuple[float, float]]:
    """(step, value) of the rows that hold a finite `key`."""
    return [
        (row["step"], row[key]) for row in rows if isinstance(row.get(key), int | float) and math.isfinite(row[key])
    ]


def loss_chart(title: str, runs: list[tuple[str, Manifest]], most: int) -> Picture | None:
    """Training and validation loss of one or several runs in one picture; None if no run kept a curve.

    Several runs have a colour each; of a single one, the two losses have.
    """
    lines = []
    for order, (name, node) in enumerate(runs):
        rows = rows_of(node)
        prefix, second = (f"{name}: ", order) if len(runs) > 1 else ("", 1)
        lines.append(Series(f"{prefix}training loss", thinned(points(rows, "loss"), most), order))
        lines.append(Series(f"{prefix}validation loss", points(rows, VALID), second, dots=True))
    lines = [line for line in lines if line.points]
    if not lines:
        return None
    return Picture(title, line_chart(lines, "step", "loss (nats)"), [node for _, node in runs], lines)


def rate_chart(title: str, node: Manifest, most: int) -> Picture | None:
    """The learning rate by step."""
    rate = thinned(points(rows_of(node), "learning_rate"), most)
    if not rate:
        return None
    return Picture(title, line_chart([Series("learning rate", rate)], "step", "learning rate", from_zero=True), [node])
