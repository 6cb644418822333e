"""smelt.plan.status, .explain and .view: what is current is told by content alone, with the cause of what is not."""

import json
from pathlib import Path

import pytest

from small_plan import alter, finish, finish_node, load, small, tree_digest
from smelt.plan import explain, identity, view
from smelt.plan.errors import SmeltError
from smelt.plan.plan import Plan
from smelt.plan.status import Status, spec_differences


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return load(tmp_path, small())


@pytest.fixture
def results(tmp_path: Path, plan: Plan) -> Path:
    finish(plan, tmp_path / "results")
    return tmp_path / "results"


def ref_of(plan: Plan, stage: str, label: str | None = None) -> str:
    (found,) = [ref for ref, node in plan.nodes.items() if node.stage == stage and label in (None, node.label)]
    return found


def running(plan: Plan, results: Path) -> dict[str, list[str]]:
    """Node → the keys of its causes."""
    return {ref: [cause.key for cause in causes] for ref, causes in Status(plan, results).to_run().items()}


def test_finished_nodes_are_current(plan, results):
    assert running(plan, results) == {}
    assert explain.explanation(plan, results) == []


def test_nothing_made_means_everything_runs(plan, tmp_path):
    assert running(plan, tmp_path / "empty") == {ref: ["manifest.json"] for ref in plan.nodes}


def test_a_touched_file_is_current(plan, results):
    for path in results.rglob("*.json"):
        path.touch()
    assert running(plan, results) == {}


def test_other_settings_name_the_key_with_both_values(plan, results, tmp_path):
    config = small()
    config["pretraining"]["short"] |= {"max_steps": 11, "learning_rate": 0.1}
    other = load(tmp_path, config)
    found = Status(other, results).to_run()
    (pretrain,) = [ref for ref in found if ref.startswith("pretrain/")]
    assert [str(cause) for cause in found[pretrain]] == [
        "settings.pretraining.learning_rate: 0.0006 → 0.1",
        "settings.pretraining.max_steps: 10 → 11",
    ]
    assert not any(ref.partition("/")[0] in ("corpus", "tokenizer", "shards", "task") for ref in found)


def test_settings_taken_back_find_the_old_nodes_current(plan, results, tmp_path):
    config = small()
    config["pretraining"]["short"]["max_steps"] = 11
    finish(load(tmp_path, config), results)
    assert running(load(tmp_path, small()), results) == {}


def test_changed_code_names_the_module(plan, results):
    ref = ref_of(plan, "pretrain")
    recorded = json.loads((results / ref / "provenance.json").read_text())
    name = next(iter(recorded["code"]))
    recorded["code"][name] = "other"
    recorded["spec"]["code"] = "other"
    alter(results / ref / "provenance.json", **recorded)
    found = Status(plan, results).to_run()
    assert [cause.key for cause in found[ref]] == [f"code.{name}"]
    assert set(found) == {ref, *plan.below({ref})}


def test_a_file_cut_off_behind_snakemakes_back_makes_its_node_run(plan, results):
    ref = ref_of(plan, "convert")
    (results / ref / "data.txt").write_text("")
    found = Status(plan, results).to_run()
    assert [cause.key for cause in found[ref]] == ["files"]
    assert "0 bytes, manifest.json says" in str(found[ref][0])
    (results / ref / "data.txt").unlink()
    assert "missing" in str(Status(plan, results).to_run()[ref][0])


def test_an_upstream_that_was_made_anew_with_other_content_makes_what_follows_run(plan, results):
    corpus = ref_of(plan, "corpus")
    finish_node(plan.nodes[corpus], results, facts={"documents": 3})
    found = running(plan, results)
    assert found[ref_of(plan, "tokenizer")] == [f"upstream.{corpus}"]
    assert corpus not in found


def test_an_upstream_that_was_made_anew_with_equal_content_makes_nothing_run(plan, results):
    finish_node(plan.nodes[ref_of(plan, "corpus")], results, started="2027-01-01T00:00:00Z")
    assert running(plan, results) == {}


def test_an_altered_manifest_is_noticed(plan, results):
    ref = ref_of(plan, "evaluate", "mini")
    path = results / ref / "manifest.json"
    path.write_text(path.read_text().replace('"facts": {}', '"facts": {"perplexity": 1}'))
    assert running(plan, results)[ref] == ["manifest.json"]


@pytest.mark.parametrize(
    "content", [None, b"", b"{", b"\xff", b"[]", b"null", b"{}", b'{"spec": 3}', b'{"spec": {}}', b'{"spec": {"stage": []}, "code": 3, "inputs": []}']
)  # fmt: skip
@pytest.mark.parametrize("file", ["provenance.json", "manifest.json"])
def test_a_node_whose_proof_is_broken_runs_again(plan, results, file, content):
    ref = ref_of(plan, "task")
    if content is None:
        (results / ref / file).unlink()
    else:
        (results / ref / file).write_bytes(content)
    found = running(plan, results)
    assert ref in found
    assert found[ref]
    assert ref_of(plan, "corpus") not in found
    assert explain.main(plan, results, None, as_json=True) == 0


def test_one_key_that_differs_deep_down_is_told_alone():
    old = {"stage": "corpus", "settings": {"a": {"b": [1, 2], "c": 1}}, "code": "x"}
    new = {"stage": "corpus", "settings": {"a": {"b": [1, 3], "c": 1}}, "code": "x"}
    (cause,) = spec_differences(old, new, {})
    assert (cause.key, cause.old, cause.new) == ("settings.a.b", [1, 2], [1, 3])
    # Equal for Python, another type for whoever reads it.
    (cause,) = spec_differences({"settings": {"a": 1}}, {"settings": {"a": True}}, {})
    assert cause.key == "settings.a"


# explain


def test_explain_gives_the_shape_that_it_promises(plan, results, tmp_path):
    config = small()
    config["tasks"]["reviews"]["seed"] = 5
    other = load(tmp_path, config)
    found = explain.explanation(other, results)
    assert all(set(each) == {"stage", "node", "why", "reaches", "seconds"} for each in found)
    assert found[0]["stage"] == "task"
    assert found[0]["why"] == [{"key": "settings.seed", "old": 1, "new": 5}]
    stages = {each["node"]: each["stage"] for each in found}
    assert {stages[node] for node in found[0]["reaches"]} == {"finetune", "evaluate", "report", "archive"}
    assert found[-1] == {"stage": "experiment", "node": "first", "why": [{"key": "nodes", "old": "as listed", "new": "other nodes"}], "reaches": [], "seconds": None}  # fmt: skip
    json.dumps(found, allow_nan=False)


def test_explain_tells_what_the_last_run_took(plan, results, capsys):
    (results / ref_of(plan, "pretrain") / "data.txt").unlink()
    assert explain.main(plan, results, None, as_json=False) == 0
    out = capsys.readouterr().out
    assert "took 0:02 the last time" in out
    assert "and so: convert/" in out
    assert "would run; the last runs of" in out


def test_explain_says_when_nothing_would_run(plan, results, capsys):
    assert explain.main(plan, results, None, as_json=False) == 0
    assert capsys.readouterr().out == "Nothing would run: everything is current.\n"


@pytest.mark.parametrize(
    ("target", "stages"),
    [
        ("first", None),
        ("corpus", {"corpus"}),
        ("shards", {"corpus", "tokenizer", "shards"}),
        ("task", {"task"}),
        ("experiment", None),
    ],
)
def test_a_target_means_itself_and_what_it_needs(plan, tmp_path, target, stages):
    found = {each["stage"] for each in explain.explanation(plan, tmp_path / "none", target)}
    everything = {node.stage for node in plan.nodes.values()} | {"experiment"}
    assert found == (everything if stages is None else stages)


def test_a_node_may_be_named_by_id_ref_folder_or_manifest(plan, tmp_path):
    ref = ref_of(plan, "tokenizer")
    names = [ref, ref.partition("/")[2], f"results/{ref}", f"results/{ref}/manifest.json"]
    found = [explain.explanation(plan, tmp_path / "none", name) for name in names]
    assert all(each == found[0] for each in found)
    assert [each["stage"] for each in found[0]] == ["corpus", "tokenizer"]


def test_an_unknown_target_is_told_with_what_there_is(plan, tmp_path):
    with pytest.raises(SmeltError, match=r"'frist' is no experiment \(first\), no stage \(corpus, .*\) and no node"):
        explain.explanation(plan, tmp_path, "frist")


# the view


def test_a_view_links_its_nodes_and_the_files_to_look_at(plan, results):
    folder = results / "experiments" / "first"
    for ref in plan.experiments["first"]:
        assert (folder / "nodes" / ref / "manifest.json").samefile(results / ref / "manifest.json")
    assert (folder / "report.html").read_text() == f"product of {ref_of(plan, 'report')}\n"
    assert (folder / "first.tar.zst").is_symlink()
    assert all(not str(path.readlink()).startswith("/") for path in folder.rglob("*") if path.is_symlink())


def test_a_view_can_be_moved_with_its_results(plan, results, tmp_path):
    results.rename(tmp_path / "moved")
    assert (tmp_path / "moved" / "experiments" / "first" / "report.html").exists()


def test_what_a_person_put_into_a_view_stays(plan, results, tmp_path):
    folder = results / "experiments" / "first"
    (folder / "notes.md").write_text("mine")
    (folder / "figures").mkdir()
    (folder / "figures" / "a.png").write_text("mine")
    (tmp_path / "other").write_text("mine")
    (folder / "elsewhere").symlink_to(tmp_path / "other")
    (folder / "dangling").symlink_to("nowhere")
    view.make(view.spec_text("first", sorted(plan.experiments["first"])), folder / "experiment.json")
    assert (folder / "notes.md").read_text() == (folder / "figures" / "a.png").read_text() == "mine"
    assert (folder / "elsewhere").read_text() == "mine"
    assert (folder / "dangling").is_symlink()


def test_a_view_made_again_has_the_links_of_its_nodes_only(plan, results, tmp_path):
    config = small()
    config["experiments"]["first"] |= {"finetuning": [], "benchmark": None}
    other = load(tmp_path, config)
    finish(other, results)
    links = {f"{path.parent.name}/{path.name}" for path in (results / "experiments" / "first" / "nodes").glob("*/*")}
    assert links == set(other.experiments["first"])
    assert not (results / "experiments" / "first" / "nodes" / "task").exists()


def test_making_a_view_twice_changes_nothing(plan, results):
    folder = results / "experiments" / "first"
    before = tree_digest(folder)
    view.make(view.spec_text("first", sorted(plan.experiments["first"])), folder / "experiment.json")
    assert tree_digest(folder) == before


def test_a_view_whose_node_changed_is_made_again(plan, results):
    ref = ref_of(plan, "archive")
    finish_node(plan.nodes[ref], results, facts={"other": 1})
    (found,) = explain.explanation(plan, results)
    assert (found["stage"], found["node"]) == ("experiment", "first")
    assert found["why"][0]["key"] == f"upstream.{ref}"


@pytest.mark.parametrize("spec", ["", "[]", "{}", '{"experiment": "x"}', "null"])
def test_a_spec_that_is_none_of_a_view_is_told(tmp_path, spec):
    with pytest.raises(SmeltError, match="not the spec of an experiment"):
        view.make(spec, tmp_path / "results" / "experiments" / "x" / "experiment.json")


def test_the_digest_of_code_that_explains_is_the_one_in_the_spec(plan):
    node = plan.nodes[ref_of(plan, "corpus")]
    assert node.spec["code"] == identity.code_digest("corpus")
