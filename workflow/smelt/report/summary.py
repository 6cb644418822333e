"""`summary.json`: every figure of an experiment in one flat list, for programs and for the table on the terminal."""

from typing import Any

from smelt.report.nodes import Nodes, figures


def summary(experiment: str, nodes: Nodes) -> dict[str, Any]:
    """`{"experiment", "figures": [{"stage", "node", "metric", "split", "value", "unit", …}]}`, in the order of the pipeline.

    What a figure says beyond these (the `reference` that it belongs to, its `interval`) is kept.
    """
    found = [{"stage": node.stage, "node": node.id, **figure} for node in nodes.all for figure in figures(node)]
    return {"experiment": experiment, "figures": found}
