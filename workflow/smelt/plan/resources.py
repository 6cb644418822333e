"""What a node needs of the machine, worked out from its settings; `resources:` in the configuration overrides it.

Estimates are generous and simple: they size a scheduler's request, they change no result.
"""

from typing import Any

from smelt.plan.errors import SmeltError
from smelt.plan.plan import Node, Plan

BASE: dict[str, dict[str, Any]] = {
    "corpus": {"threads": 2, "memory": 4000, "minutes": 120},
    "task": {"threads": 1, "memory": 2000, "minutes": 30},
    "tokenizer": {"threads": 2, "memory": 6000, "minutes": 120},
    "shards": {"threads": 2, "memory": 4000, "minutes": 240},
    "pretrain": {"threads": 2, "memory": 4000, "minutes": 720, "gpus": 1},
    "convert": {"threads": 1, "memory": 4000, "minutes": 60},
    "finetune": {"threads": 1, "memory": 4000, "minutes": 240, "gpus": 1},
    "evaluate": {"threads": 1, "memory": 4000, "minutes": 120, "gpus": 1},
    "benchmark": {"threads": 1, "memory": 4000, "minutes": 60, "gpus": 1},
    "report": {"threads": 1, "memory": 2000, "minutes": 20},
    "archive": {"threads": 1, "memory": 1000, "minutes": 60},
}
COMPUTING = ("pretrain", "convert", "finetune", "evaluate", "benchmark")
"""The stages that run a model."""
REST = {"gpus": 0, "micro_batch": 0, "zero_stage": 0, "save_minutes": 10.0, "budget_minutes": 0.0}
"""For what BASE leaves open; a micro-batch of 0 lets the stage choose, a budget of 0 sets no limit."""
CHOSEN = ("micro_batch", "zero_stage", "save_minutes", "budget_minutes")
"""Of these the last word counts; of the others, where several experiments share a node, the most that any asks for."""


def need(plan: Plan, node: Node, what: str, attempt: int = 1) -> Any:
    """One resource of one node; memory doubles with the second attempt, since a job that was killed for memory is tried again."""
    value = {**REST, **BASE[node.stage]}[what]
    if what == "memory":
        value += _model_memory(plan, node)
    if what == "threads" and node.stage in COMPUTING:
        value = max(value, _compute_threads(node.settings))
    given = [getattr(each, what) for each in plan.needs[node.ref] if getattr(each, what) is not None]
    if given:
        value = given[-1] if what in CHOSEN else max(given)
    # Once: a training that meets its time limit again and again needs no more each time, and no node has so much.
    return value * min(attempt, 2) if what == "memory" else value


def _compute_threads(settings: dict[str, Any]) -> int:
    """The threads that the node's arithmetic uses, wherever its settings have them."""
    found = [value for key, value in settings.items() if key == "cpu_threads"]
    found += [_compute_threads(value) for value in settings.values() if isinstance(value, dict)]
    return max(found, default=1)


def _model_memory(plan: Plan, node: Node) -> int:
    """MB for weights, gradients, two moments and a copy, in fp32 (20 bytes a parameter), of the model that the node works on."""
    model = _model(plan, node)
    if model is None:
        return 0
    width, depth = model.get("hidden_size", 0), model.get("num_hidden_layers", 0)
    vocabulary = max(
        (above.settings.get("vocab_size", 0) for above in _above(plan, node) if above.stage == "tokenizer"), default=0
    )
    # 12 width² a layer: the attention's four and the feed-forward's eight matrices (Kaplan et al. 2020, table 1).
    return round((12 * depth * width**2 + vocabulary * width) * 20 / 1e6)


def _model(plan: Plan, node: Node) -> dict[str, Any] | None:
    if node.stage not in COMPUTING:
        return None
    return next((each.settings["model"] for each in [node, *_above(plan, node)] if each.stage == "pretrain"), None)


def _above(plan: Plan, node: Node) -> list[Node]:
    found: dict[str, Node] = {}
    todo = list(node.above)
    while todo:
        ref = todo.pop()
        if ref not in found:
            found[ref] = plan.nodes[ref]
            todo += plan.nodes[ref].above
    return list(found.values())


def show(plan: Plan, experiment: str | None = None) -> None:
    """Print the nodes and what each asks for. Raises SmeltError for an experiment that the configuration does not have."""
    from rich.console import Console
    from rich.table import Table

    if experiment is not None and experiment not in plan.experiments:
        raise SmeltError(
            f"no experiment is named {experiment!r}; the configuration has {', '.join(plan.experiments) or 'none'}"
        )
    columns = ("threads", "memory", "minutes", "gpus")
    table = Table("node", *columns)
    for ref in plan.experiments[experiment] if experiment else plan.nodes:
        table.add_row(ref, *(str(need(plan, plan.nodes[ref], what)) for what in columns))
    Console().print(table)
