"""The finished nodes of an experiment, found by stage, by reference and along their upstream."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from smelt.plan.manifest import Manifest

STAGES = ("corpus", "task", "tokenizer", "shards", "pretrain", "convert", "finetune", "evaluate", "benchmark")
"""The stages that a report tells of, in the order of the pipeline."""


def ref(node: Manifest) -> str:
    """`stage/id`, as upstream entries name a node."""
    return f"{node.stage}/{node.id}"


def label(node: Manifest) -> str:
    """The name that the configuration gave: the id without its hash."""
    return node.id.rpartition("-")[0] or node.id


def anchor(node: Manifest) -> str:
    """Id of the node's row on the page."""
    return f"node-{node.stage}-{node.id}"


def upstream_refs(node: Manifest) -> list[str]:
    """All `stage/id` that the node was made from, in the order of its roles."""
    found: list[str] = []
    for given in node.upstream.values():
        found.extend([given] if isinstance(given, str) else given)
    return list(dict.fromkeys(found))


def measurements(node: Manifest) -> dict[str, Any]:
    """Timings, memory, throughput: true of one run on one machine."""
    return node.provenance.get("measurements") or {}


def timed(node: Manifest) -> list[dict[str, Any]]:
    return measurements(node).get("figures", [])


def figures(node: Manifest) -> list[dict[str, Any]]:
    """What the node reports of its product, then what it measured."""
    return [*node.facts.get("figures", []), *timed(node)]


@dataclass(frozen=True)
class Nodes:
    """The manifests of one experiment, in the order of the pipeline and of their ids."""

    given: list[Manifest]
    order: tuple[str, ...] = field(default=STAGES)

    @cached_property
    def all(self) -> list[Manifest]:
        distinct = {ref(node): node for node in self.given}
        rank = {stage: number for number, stage in enumerate(self.order)}
        return sorted(distinct.values(), key=lambda node: (rank.get(node.stage, len(rank)), node.stage, node.id))

    @cached_property
    def by_ref(self) -> dict[str, Manifest]:
        return {ref(node): node for node in self.all}

    def of(self, stage: str) -> list[Manifest]:
        return [node for node in self.all if node.stage == stage]

    def above(self, node: Manifest, role: str) -> Manifest | None:
        """The node in `role` of `node`'s upstream; None if there is no such role or its node is not of this experiment."""
        given = node.upstream.get(role)
        return self.by_ref.get(given) if isinstance(given, str) else None

    def below(self, node: Manifest, stage: str) -> list[Manifest]:
        """The nodes of `stage` that were made from `node` directly."""
        return [other for other in self.of(stage) if ref(node) in upstream_refs(other)]
