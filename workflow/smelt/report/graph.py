"""The picture of an experiment's pipeline: its nodes from left to right, drawn from what each was made from."""

from collections import defaultdict
from dataclasses import dataclass, field

from markupsafe import Markup

from smelt.plan.manifest import Manifest
from smelt.report.nodes import Nodes, anchor, label, ref, upstream_refs
from smelt.report.numbers import brief, duration

COLUMNS = (
    ("corpus",),
    ("tokenizer",),
    ("shards",),
    ("pretrain",),
    ("task", "convert"),
    ("finetune",),
    ("evaluate", "benchmark"),
)
"""Stages that stand one above the other. Every edge of a plan goes to a column further right."""
BOX, BOX_HEIGHT, GAP, ROW, LANE, TOP = 140, 46, 38, 60, 22, 12
LETTERS = 17
"""Letters of a label that fit into a box."""
SWEEPS = 6


@dataclass
class Spot:
    """Where a node is drawn, or where an edge passes through a column of others (`node` is None)."""

    column: int
    node: Manifest | None
    row: float = 0.0
    y: float = 0.0
    left: list["Spot"] = field(default_factory=list)
    right: list["Spot"] = field(default_factory=list)

    @property
    def room(self) -> int:
        return ROW if self.node else LANE


def direct_edges(nodes: Nodes) -> list[tuple[str, str]]:
    """Edges (from, to) that no longer way implies: the transitive reduction, by which a picture of a pipeline stays readable."""
    above = {ref(node): [r for r in upstream_refs(node) if r in nodes.by_ref] for node in nodes.all}
    ancestors: dict[str, set[str]] = {}

    def collect(of: str) -> set[str]:
        if of not in ancestors:
            ancestors[of] = set()
            for parent in above[of]:
                ancestors[of] |= {parent} | collect(parent)
        return ancestors[of]

    return [
        (parent, child)
        for child, parents in above.items()
        for parent in parents
        if not any(parent in collect(other) for other in parents if other != parent)
    ]


def _columns(nodes: Nodes) -> dict[str, int]:
    """Stage → column, without gaps; stages that are not known stand last."""
    groups = [*COLUMNS, *((s,) for s in sorted({n.stage for n in nodes.all} - {s for c in COLUMNS for s in c}))]
    present = [group for group in groups if any(nodes.of(stage) for stage in group)]
    return {stage: number for number, group in enumerate(present) for stage in group}


def layout(nodes: Nodes) -> list[list[Spot]]:
    """The columns, each from top to bottom, with few crossings (rows by the mean of the neighbours' rows, swept to and fro)."""
    column = _columns(nodes)
    spots = {ref(node): Spot(column[node.stage], node) for node in nodes.all}
    lanes: dict[tuple[str, int], Spot] = {}
    for source, target in direct_edges(nodes):
        here = spots[source]
        for between in range(here.column + 1, spots[target].column):
            lane = lanes.setdefault((source, between), Spot(between, None))
            _join(here, lane)
            here = lane
        _join(here, spots[target])
    by_column: dict[int, list[Spot]] = defaultdict(list)
    for spot in [*spots.values(), *lanes.values()]:
        by_column[spot.column].append(spot)
    columns = [by_column[number] for number in sorted(by_column)]
    for sweep in range(SWEEPS):
        for spots_of_column in columns if sweep % 2 == 0 else reversed(columns):
            _order(spots_of_column, "left" if sweep % 2 == 0 else "right")
    height = max(sum(spot.room for spot in each) for each in columns)
    for each in columns:
        y = (height - sum(spot.room for spot in each)) / 2
        for spot in each:
            spot.y = TOP + y + spot.room / 2
            y += spot.room
    return columns


def _join(a: Spot, b: Spot) -> None:
    if b not in a.right:
        a.right.append(b)
        b.left.append(a)


def _order(column: list[Spot], side: str) -> None:
    """Sort by the mean row of the neighbours on one side; rows count from the middle, so that columns of any length agree."""
    for row, spot in enumerate(column):
        neighbours = getattr(spot, side)
        spot.row = sum(n.row for n in neighbours) / len(neighbours) if neighbours else row - (len(column) - 1) / 2
    column.sort(key=lambda spot: spot.row)
    for row, spot in enumerate(column):
        spot.row = row - (len(column) - 1) / 2


def picture(nodes: Nodes) -> Markup:
    """Inline SVG. Each box leads to its node's row on the page and says on hover what it was made from."""
    columns = layout(nodes)
    width = len(columns) * (BOX + GAP) - GAP + 4
    bottom = max(spot.y + spot.room / 2 for column in columns for spot in column)
    edges = [_edge(spot, other) for column in columns for spot in column for other in spot.right]
    boxes = [_box(spot) for column in columns for spot in column if spot.node]
    told = "Pipeline: " + "; ".join(f"{a} leads to {b}" for a, b in direct_edges(nodes))
    return Markup(
        '<svg class="graph" viewBox="0 0 {w} {h:.0f}" width="{w}" role="group" aria-label="{told}">{edges}{boxes}</svg>'
    ).format(w=width, h=bottom + TOP, told=told, edges=Markup("").join(edges), boxes=Markup("").join(boxes))


def _left(spot: Spot) -> float:
    return 2 + spot.column * (BOX + GAP)


def _edge(a: Spot, b: Spot) -> Markup:
    x1, x2 = _left(a) + BOX, _left(b)
    middle = (x1 + x2) / 2
    # A lane is crossed in a straight line before the curve to the next column begins.
    start = f"M{_left(a)} {a.y:.1f}H{x1}" if a.node is None else f"M{x1} {a.y:.1f}"
    return Markup(f'<path class="edge" d="{start}C{middle} {a.y:.1f} {middle} {b.y:.1f} {x2} {b.y:.1f}"/>')  # noqa: S704 - numbers only


def _box(spot: Spot) -> Markup:
    node = spot.node
    assert node is not None
    name = label(node)
    sources = ", ".join(upstream_refs(node)) or "nothing above it"
    seconds = node.provenance.get("seconds")
    return Markup(
        '<a href="#{anchor}" class="box {stage}"><title>{ref}, from {sources}{took_long}</title>'
        '<rect x="{x}" y="{y:.1f}" width="{w}" height="{h}" rx="7"/><rect class="edge-mark" x="{x}" y="{y:.1f}" width="5" height="{h}" rx="2.5"/>'
        '<text class="stage" x="{tx}" y="{ty:.1f}">{stage}</text><text class="took" x="{rx}" y="{ty:.1f}" text-anchor="end">{took}</text>'
        '<text class="label" x="{tx}" y="{ly:.1f}">{name}</text></a>'
    ).format(
        anchor=anchor(node), stage=node.stage, ref=ref(node), sources=sources, took_long="" if seconds is None else f"; took {duration(seconds)}",
        x=_left(spot), y=spot.y - BOX_HEIGHT / 2, w=BOX, h=BOX_HEIGHT, tx=_left(spot) + 14, ty=spot.y - 6,
        rx=_left(spot) + BOX - 9, ly=spot.y + 13, took="" if seconds is None else brief(seconds), name=name if len(name) <= LETTERS else name[: LETTERS - 1] + "…",
    )  # fmt: skip
