"""smelt.plan.plan: which nodes there are. The same settings are the same node, whatever else differs."""

import copy
import json
import re
from pathlib import Path

import pytest
import yaml

from small_plan import load, small, write
from smelt.plan import resources
from smelt.plan.errors import SmeltError
from smelt.plan.manifest import canonical
from smelt.plan.plan import Plan
from smelt.plan.stages import STAGES


def reverse(value):
    """The same mappings in the other order."""
    if isinstance(value, dict):
        return {key: reverse(value[key]) for key in reversed(value)}
    return value


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return load(tmp_path, small())


def test_an_experiment_has_every_stage_once_and_classification_a_sibling_from_random_weights(plan):
    labels = sorted((node.stage, node.label) for node in plan.nodes.values())
    assert labels == sorted(
        [
            ("corpus", "en"),
            ("task", "reviews"),
            ("tokenizer", "bpe"),
            ("shards", "en"),
            ("pretrain", "mini"),
            ("convert", "mini"),
            ("finetune", "sentiment"),
            ("finetune", "sentiment-scratch"),
            ("evaluate", "mini"),
            ("evaluate", "sentiment"),
            ("evaluate", "sentiment-scratch"),
            ("benchmark", "speed"),
            ("report", "first"),
            ("archive", "first"),
        ]
    )
    inits = {node.label: node.settings["init"] for node in plan.nodes.values() if node.stage == "finetune"}
    assert inits == {"sentiment": "pretrained", "sentiment-scratch": "random"}


def test_what_each_stage_is_given_is_what_the_stages_agreed_on(plan):
    roles = {
        node.stage: set(node.upstream)
        for node in plan.nodes.values()
        if node.label != "mini" or node.stage != "evaluate"
    }
    assert roles == {
        "corpus": set(),
        "task": set(),
        "tokenizer": {"corpus"},
        "shards": {"corpus", "tokenizer"},
        "pretrain": {"shards", "tokenizer"},
        "convert": {"pretrain", "tokenizer", "shards"},
        "finetune": {"convert", "task"},
        "evaluate": {"finetune", "task", "convert"},
        "benchmark": {"convert", "shards"},
        "report": {"nodes"},
        "archive": {"report", "nodes"},
    }


def test_upstream_comes_before_downstream_in_plan_and_experiment(plan):
    for order in (list(plan.nodes), plan.experiments["first"]):
        for position, ref in enumerate(order):
            assert all(order.index(above) < position for above in plan.nodes[ref].above)
    assert [ref.partition("/")[0] for ref in plan.experiments["first"][-2:]] == ["report", "archive"]


@pytest.mark.parametrize(
    "written",
    [
        lambda config: yaml.safe_dump(reverse(config), sort_keys=False),
        lambda config: yaml.safe_dump(config, sort_keys=True, default_flow_style=True),
        lambda config: json.dumps(config, indent=4),
        lambda config: "# a comment\n" + yaml.safe_dump(config).replace("max_steps: 10", "max_steps:   10  # ten"),
        lambda config: yaml.safe_dump(config).replace("max_steps: 10", "max_steps: &ten 10"),
    ],
    ids=["key order", "flow style", "JSON", "comments", "an anchor"],
)
def test_the_way_a_file_is_written_changes_no_node(tmp_path, plan, written):
    other = load(tmp_path / "elsewhere", written(small()))
    assert list(other.experiments) == ["first"]
    assert {ref: node.spec_text for ref, node in other.nodes.items()} == {
        ref: node.spec_text for ref, node in plan.nodes.items()
    }


def test_a_default_written_out_is_the_same_node(tmp_path, plan):
    config = small()
    config["pretraining"]["short"]["weight_decay"] = 0.1
    config["experiments"]["first"]["evaluate"] = {"seed": 42}
    assert set(load(tmp_path, config).nodes) == set(plan.nodes)


def test_layers_and_inheritance_leave_no_trace_in_a_node(tmp_path, plan):
    config = small()
    config["pretraining"] = {"base": {"sequence_length": 64}, "short": {"like": "base", "max_steps": 3}}
    config["experiments"]["first"]["pretraining"] = "short"
    assert set(load(tmp_path, config, {"pretraining": {"short": {"max_steps": 10}}}).nodes) == set(plan.nodes)


def test_an_id_is_the_label_and_ten_digits_and_fits_the_rules(plan):
    for node in plan.nodes.values():
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.\-]*-[0-9a-f]{10}", node.id)
        assert node.id.rpartition("-")[0] == node.label


CHANGES = {
    "corpus": (("corpora", "en", "seed"), 7),
    "task": (("tasks", "reviews", "seed"), 7),
    "tokenizer": (("tokenizers", "bpe", "vocab_size"), 3000),
    "shards": (("experiments", "first", "shards"), {"max_shard_bytes": 4096}),
    "pretrain": (("pretraining", "short", "seed"), 7),
    "convert": (("experiments", "first", "convert"), {"max_shard_size": "1GB"}),
    "finetune": (("finetuning", "sentiment", "seed"), 7),
    "benchmark": (("benchmarks", "speed", "repeats"), 7),
    "report": (("experiments", "first", "report"), {"title": "x"}),
    "archive": (("experiments", "first", "archive"), {"include_code": False}),
}


@pytest.mark.parametrize("stage", CHANGES)
def test_a_setting_changes_its_stage_and_what_follows_and_nothing_else(tmp_path, plan, stage):
    config = small()
    (*keys, last), value = CHANGES[stage]
    block = config
    for key in keys:
        block = block[key]
    block[last] = value
    other = load(tmp_path, config)
    gone = set(plan.nodes) - set(other.nodes)
    own = {ref for ref in gone if ref.startswith(f"{stage}/")}
    assert own
    # The archive holds the whole configuration, so any setting is a setting of it.
    assert gone == own | set(plan.below(own)) | {ref for ref in gone if ref.startswith("archive/")}
    assert {ref.partition("/")[0] for ref in gone} <= set(STAGES[STAGES.index(stage) :]) | {"archive"}


def test_resources_are_never_part_of_a_node(tmp_path, plan):
    config = small()
    config["pretraining"]["short"]["resources"] = {"gpus": 8, "micro_batch": 1, "zero_stage": 3}
    config["corpora"]["en"]["resources"] = {"threads": 64}
    config["experiments"]["first"]["resources"] = {"evaluate": {"memory": 123_456}, "archive": {"minutes": 1}}
    other = load(tmp_path, config)
    assert {ref: node.spec_text for ref, node in other.nodes.items()} == {
        ref: node.spec_text for ref, node in plan.nodes.items()
    }


def test_experiments_that_agree_on_a_stage_share_its_node(tmp_path):
    config = small()
    config["pretraining"]["long"] = {"like": "short", "max_steps": 1000}
    config["experiments"]["second"] = {"like": "first", "pretraining": "long"}
    plan = load(tmp_path, config)
    shared = set(plan.experiments["first"]) & set(plan.experiments["second"])
    assert {ref.partition("/")[0] for ref in shared} == {"corpus", "tokenizer", "shards", "task"}
    assert len(plan.nodes) == 2 * len(plan.experiments["first"]) - len(shared)


def test_another_name_of_an_experiment_moves_only_its_report_and_archive(tmp_path, plan):
    config = small()
    config["experiments"]["renamed"] = config["experiments"].pop("first")
    gone = set(plan.nodes) - set(load(tmp_path, config).nodes)
    assert {ref.partition("/")[0] for ref in gone} == {"report", "archive"}


def test_the_reference_from_random_weights_can_be_left_out(tmp_path):
    config = small()
    config["finetuning"]["sentiment"]["from_scratch_reference"] = False
    plan = load(tmp_path, config)
    assert [node.label for node in plan.nodes.values() if node.stage == "finetune"] == ["sentiment"]
    # The switch says which nodes there are; it is no setting of the node itself.
    assert {ref for ref in plan.nodes if "finetune" in ref} <= set(load(tmp_path, small()).nodes)


def test_a_block_that_starts_from_random_weights_shares_the_sibling(tmp_path):
    config = small()
    config["finetuning"]["sentiment-scratch"] = {"task": "reviews", "init": "random"}
    config["experiments"]["first"]["finetuning"] = ["sentiment", "sentiment-scratch"]
    assert set(load(tmp_path, config).nodes) >= {ref for ref in load(tmp_path, small()).nodes if "finetune" in ref}
    assert len([ref for ref in load(tmp_path, config).nodes if ref.startswith("finetune/")]) == 2


def test_dialogue_has_no_sibling_from_random_weights(tmp_path):
    config = small()
    sources = config["tasks"]["reviews"]["sources"]
    config["tasks"]["reviews"] = {"kind": "dialogue", "sources": sources, "format": "messages"}
    plan = load(tmp_path, config)
    assert [node.label for node in plan.nodes.values() if node.stage == "finetune"] == ["sentiment"]


def test_a_matrix_of_finetunings_stands_for_all_its_members(tmp_path):
    config = small()
    config["finetuning"]["sentiment"]["each"] = {"seed": [1, 2]}
    plan = load(tmp_path, config)
    labels = {node.label for node in plan.nodes.values() if node.stage == "finetune"}
    assert labels == {"sentiment-seed1", "sentiment-seed2", "sentiment-seed1-scratch", "sentiment-seed2-scratch"}


def test_a_finetuning_named_twice_is_one(tmp_path, plan):
    config = small()
    config["experiments"]["first"]["finetuning"] = ["sentiment", "sentiment"]
    assert set(plan.experiments["first"]) - set(load(tmp_path, config).experiments["first"]) <= {
        ref for ref in plan.nodes if ref.startswith("archive/")
    }


def test_the_resolved_configuration_makes_the_same_nodes_again(tmp_path):
    config = small()
    config["pretraining"]["short"]["each"] = {"seed": [1, 2]}
    config["finetuning"]["sentiment"]["each"] = {"learning_rate": [1e-4, 3e-4]}
    config["experiments"]["first"] |= {"pretraining": "short-seed2", "resources": {"evaluate": {"gpus": 0}}}
    config["experiments"]["other"] = {"like": "first", "pretraining": "short-seed1"}
    plan = load(tmp_path, config)
    resolved = plan.resolved("first")
    again = load(tmp_path / "again", json.loads(canonical(resolved)))
    assert again.experiments == {"first": plan.experiments["first"]}
    assert again.resolved("first") == resolved


def test_the_archive_holds_the_configuration_that_makes_its_experiment(tmp_path, plan):
    (archive,) = [node for node in plan.nodes.values() if node.stage == "archive"]
    again = load(tmp_path, copy.deepcopy(archive.settings["configuration"]))
    assert archive.ref in again.nodes


def test_below_reaches_everything_that_depends_and_nothing_else(plan):
    (task,) = [ref for ref in plan.nodes if ref.startswith("task/")]
    reached = {(ref.partition("/")[0], plan.nodes[ref].label) for ref in plan.below({task})}
    assert reached == {
        ("finetune", "sentiment"),
        ("finetune", "sentiment-scratch"),
        ("evaluate", "sentiment"),
        ("evaluate", "sentiment-scratch"),
        ("report", "first"),
        ("archive", "first"),
    }
    assert plan.below({plan.experiments["first"][-1]}) == []


def test_a_spec_is_one_line_of_json_with_all_that_determines_the_product(plan):
    for node in plan.nodes.values():
        spec = json.loads(node.spec_text)
        assert spec == {
            "format": 1,
            "stage": node.stage,
            "settings": node.settings,
            "upstream": node.upstream,
            "code": spec["code"],
        }
        assert re.fullmatch("[0-9a-f]{16}", spec["code"])
        assert "\n" not in node.spec_text


@pytest.mark.parametrize(
    "name", ["a b.txt", "it's.txt", 'a"b.txt', "$(touch x).txt", "a;b.txt", "语料.txt", "x" * 200 + ".txt"]
)
def test_a_file_source_of_any_name_counts_by_its_content(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    config = small()
    config["corpora"]["en"]["sources"] = [{"kind": "file", "path": name}]
    (tmp_path / name).write_text("one\n")
    first = load(tmp_path, config)
    (corpus,) = [node for node in first.nodes.values() if node.stage == "corpus"]
    assert list(corpus.spec["files"]) == [f"{name}: {name}"]
    (tmp_path / name).write_text("two\n")
    (other,) = [node for node in load(tmp_path, config).nodes.values() if node.stage == "corpus"]
    assert other.ref == corpus.ref
    assert other.spec_text != corpus.spec_text


def test_the_time_of_a_source_file_does_not_count(tmp_path, monkeypatch):
    import os

    monkeypatch.chdir(tmp_path)
    config = small()
    config["corpora"]["en"]["sources"] = [{"kind": "file", "path": "a.txt"}]
    (tmp_path / "a.txt").write_text("one\n")
    before = {ref: node.spec_text for ref, node in load(tmp_path, config).nodes.items()}
    os.utime(tmp_path / "a.txt", (1, 1))
    assert {ref: node.spec_text for ref, node in load(tmp_path, config).nodes.items()} == before


def test_a_folder_as_source_counts_each_file_and_a_new_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = small()
    config["corpora"]["en"]["sources"] = [{"kind": "file", "path": "texts", "exclude": ["*.md"]}]
    write(tmp_path / "texts" / "deep", "one", "a.txt")
    write(tmp_path / "texts", "no", "about.md")

    def files() -> dict[str, str]:
        (corpus,) = [node for node in load(tmp_path, config).nodes.values() if node.stage == "corpus"]
        return corpus.spec["files"]

    assert list(files()) == ["texts: deep/a.txt"]
    write(tmp_path / "texts", "two", "b.txt")
    assert list(files()) == ["texts: b.txt", "texts: deep/a.txt"]


def test_memory_doubles_after_the_first_attempt_and_grows_with_the_model(tmp_path, plan):
    (pretrain,) = [node for node in plan.nodes.values() if node.stage == "pretrain"]
    once = resources.need(plan, pretrain, "memory")
    assert [resources.need(plan, pretrain, "memory", attempt=number) for number in (2, 3)] == [2 * once] * 2
    config = small()
    config["models"]["mini"] |= {"hidden_size": 4096, "num_hidden_layers": 32}
    larger = load(tmp_path, config)
    (big,) = [node for node in larger.nodes.values() if node.stage == "pretrain"]
    # 12 × 32 × 4096² weights of 20 bytes are 129 GB.
    assert resources.need(larger, big, "memory") - once > 128_000


def test_what_the_configuration_says_of_resources_wins(tmp_path):
    config = small()
    config["pretraining"]["short"]["resources"] = {"gpus": 0, "memory": 77, "zero_stage": 1, "threads": 5}
    config["experiments"]["first"]["resources"] = {"pretrain": {"zero_stage": 3}}
    plan = load(tmp_path, config)
    (node,) = [node for node in plan.nodes.values() if node.stage == "pretrain"]
    found = {
        what: resources.need(plan, node, what) for what in ("gpus", "memory", "zero_stage", "threads", "budget_minutes")
    }
    assert found == {"gpus": 0, "memory": 77, "zero_stage": 3, "threads": 5, "budget_minutes": 0}


def test_threads_are_those_of_the_arithmetic_where_there_is_any(tmp_path):
    config = small()
    config["pretraining"]["short"]["cpu_threads"] = 7
    plan = load(tmp_path, config)
    threads = {node.stage: resources.need(plan, node, "threads") for node in plan.nodes.values()}
    assert threads["pretrain"] == 7
    assert threads["archive"] == threads["report"] == 1


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_has_every_resource(plan, stage):
    node = next(node for node in plan.nodes.values() if node.stage == stage)
    least = {
        "threads": 1,
        "memory": 500,
        "minutes": 10,
        "gpus": 0,
        "budget_minutes": 0,
        "micro_batch": 0,
        "zero_stage": 0,
        "save_minutes": 1,
    }
    for what, bound in least.items():
        assert resources.need(plan, node, what) >= bound


def test_a_spec_that_no_command_line_could_carry_is_told_with_the_way_out(tmp_path):
    config = small()
    (source,) = config["corpora"]["en"]["sources"]
    config["corpora"]["en"]["sources"] = [
        {**source, "url": f"https://a.example/{number}.txt"} for number in range(1500)
    ]
    plan = load(tmp_path, config)
    node = next(node for node in plan.nodes.values() if node.stage == "corpus")
    with pytest.raises(
        SmeltError, match=r"corpus/en-.* bytes long, more than the 100,000 .* name many sources by one glob"
    ):
        _ = node.spec_text
