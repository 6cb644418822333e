"""The picture of the pipeline: every node once, only arrows that no longer way implies, nothing on top of another."""

import itertools
import re

from made_experiment import Made, make_pretrained
from page_reader import read_page
from smelt.report.graph import BOX, BOX_HEIGHT, GAP, direct_edges, layout, picture
from smelt.report.nodes import Nodes, ref, upstream_refs


def reach(edges):
    """All (from, to) that a way of edges leads, by closing the relation step by step."""
    closed = set(edges)
    while more := {(a, d) for a, b in closed for c, d in closed if b == c} - closed:
        closed |= more
    return closed


def test_arrows_lead_to_the_same_nodes_as_the_manifests_say_and_none_can_be_spared(made):
    nodes = Nodes(list(made.nodes.values()))
    given = {(above, ref(node)) for node in nodes.all for above in upstream_refs(node)}
    drawn = direct_edges(nodes)
    assert set(drawn) < given
    assert reach(drawn) == reach(given)
    assert all(reach(set(drawn) - {edge}) != reach(given) for edge in drawn)


def test_the_chain_of_pretraining_is_drawn_as_a_chain(results):
    nodes = Nodes(list(make_pretrained(results.root).nodes.values()))
    stages = [(a.partition("/")[0], b.partition("/")[0]) for a, b in direct_edges(nodes)]
    assert stages == [
        ("corpus", "tokenizer"), ("tokenizer", "shards"), ("shards", "pretrain"), ("pretrain", "convert"), ("convert", "evaluate"),
    ]  # fmt: skip


def test_every_arrow_goes_to_the_right_and_no_two_boxes_touch(made):
    columns = layout(Nodes(list(made.nodes.values())))
    for column in columns:
        assert all(other.column > spot.column for spot in column for other in spot.right)
        by_height = sorted(spot.y for spot in column if spot.node)
        assert all(b - a >= BOX_HEIGHT for a, b in itertools.pairwise(by_height))
        lanes = [spot.y for spot in column if spot.node is None]
        assert all(abs(lane - y) > BOX_HEIGHT / 2 for lane in lanes for y in by_height)


def test_every_node_is_drawn_once_and_links_to_its_place(made):
    reader = read_page(picture(Nodes(list(made.nodes.values()))))
    assert reader.problems == []
    links = [tag.attributes["href"] for tag in reader.root.all("a")]
    assert sorted(links) == sorted(f"#node-{m.stage}-{m.id}" for m in made.nodes.values())


def test_the_picture_is_as_wide_as_its_columns(made):
    svg = picture(Nodes(list(made.nodes.values())))
    width = int(re.search(r'viewBox="0 0 (\d+)', svg)[1])
    assert width == 7 * BOX + 6 * GAP + 4


def test_a_long_name_does_not_leave_its_box_and_is_told_whole(results):
    made = Made(results.root)
    made.add("corpus", "corpus", "a-name-that-is-far-too-long-for-its-box", {}, {})
    reader = read_page(picture(Nodes(list(made.nodes.values()))))
    (label,) = [tag.text for tag in reader.root.all("text") if "label" in tag.classes]
    assert len(label) <= 17 and label.endswith("…")
    assert "a-name-that-is-far-too-long-for-its-box" in reader.root.all("title")[0].text


def test_two_hundred_fine_tunings_are_laid_out_within_a_second(results):
    made = make_pretrained(results.root)
    made.add("task", "task", "t", {}, {})
    for number in range(200):
        made.add(f"f{number}", "finetune", f"f{number}", {"seed": number}, {}, convert="convert", task="task")
        made.add(f"e{number}", "evaluate", f"f{number}", {"seed": number}, {}, finetune=f"f{number}", task="task", convert="convert")  # fmt: skip
    import time

    nodes = Nodes(list(made.nodes.values()))
    started = time.monotonic()
    columns = layout(nodes)
    assert time.monotonic() - started < 5
    finetune, evaluate = columns[-2], columns[-1]
    # each evaluation stands beside its own fine-tuning
    order = [spot.node.id.rpartition("-")[0] for spot in finetune if spot.node]
    assert [spot.node.id.rpartition("-")[0] for spot in evaluate if spot.node.upstream.get("finetune")] == order
