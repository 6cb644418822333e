"""smelt.plan.records: Snakemake's records say what provenance proves, in the form of the installed Snakemake."""

import json
from pathlib import Path

import pytest

from small_plan import finish, load, small, tree_digest
from smelt.plan import records
from smelt.plan.records import RECORD_FORMAT, bring_in_step


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    """A working directory with everything made, and no `.snakemake`."""
    monkeypatch.chdir(tmp_path)
    finish(load(tmp_path / "config", small()), Path("results"))
    return tmp_path


def plan_of(folder: Path, config=None):
    return load(folder / "config", config or small())


def read(folder: Path, output: str) -> dict:
    """As Snakemake finds the record of an output."""
    return json.loads(records._Writer(folder / ".snakemake").path(output).read_text())


def test_the_records_have_the_format_of_the_installed_snakemake():
    from snakemake.persistence import RECORD_FORMAT_VERSION

    assert RECORD_FORMAT == RECORD_FORMAT_VERSION


def test_a_record_lies_where_snakemake_looks_for_it(tmp_path):
    from snakemake.persistence.file import FilePersistence

    persistence = FilePersistence.__new__(FilePersistence)  # the whole needs a workflow
    persistence._max_len = None
    writer = records._Writer(tmp_path)
    for output in ("results/corpus/en-0123456789/manifest.json", f"results/corpus/{'x' * 300}/manifest.json"):
        assert Path(persistence._record_path(str(tmp_path / "metadata"), output)) == writer.path(output)


def test_every_finished_node_and_view_gets_its_record(folder):
    plan = plan_of(folder)
    bring_in_step(plan, Path("results"), Path(".snakemake"))
    for ref, node in plan.nodes.items():
        record = read(folder, f"results/{ref}/manifest.json")
        assert record["params"] == [repr(node.spec_text)]
        assert record["rule"] == node.stage
        assert record["input"] == sorted(f"results/{above}/manifest.json" for above in node.above)
        assert set(record["input_checksums"]) == set(record["input"])
        assert record["incomplete"] is False
    assert read(folder, "results/experiments/first/experiment.json")["rule"] == "experiment"


def test_records_in_step_are_not_written_again_and_keep_what_snakemake_added(folder):
    plan = plan_of(folder)
    bring_in_step(plan, Path("results"), Path(".snakemake"))
    ref = next(iter(plan.nodes))
    path = records._Writer(folder / ".snakemake").path(f"results/{ref}/manifest.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "starttime": 1.5}))
    before = tree_digest(folder / ".snakemake")
    bring_in_step(plan_of(folder), Path("results"), Path(".snakemake"))
    assert tree_digest(folder / ".snakemake") == before


@pytest.mark.parametrize("broken", [b"", b"{", b"[]", b"\xff"])
def test_a_broken_record_is_replaced(folder, broken):
    plan = plan_of(folder)
    bring_in_step(plan, Path("results"), Path(".snakemake"))
    ref = next(iter(plan.nodes))
    path = records._Writer(folder / ".snakemake").path(f"results/{ref}/manifest.json")
    before = path.read_bytes()
    path.write_bytes(broken)
    bring_in_step(plan_of(folder), Path("results"), Path(".snakemake"))
    assert path.read_bytes() == before


def test_a_record_that_claims_more_than_provenance_is_put_right(folder):
    """As after results of other settings were copied over those that Snakemake knew."""
    plan = plan_of(folder)
    bring_in_step(plan, Path("results"), Path(".snakemake"))
    ref = next(iter(plan.nodes))
    (folder / "results" / ref / "provenance.json").write_text("{}")
    bring_in_step(plan_of(folder), Path("results"), Path(".snakemake"))
    (params,) = read(folder, f"results/{ref}/manifest.json")["params"]
    assert params != repr(plan.nodes[ref].spec_text)
    assert "no provenance" in params


def test_a_file_cut_off_makes_the_params_differ(folder):
    plan = plan_of(folder)
    ref = next(ref for ref in plan.nodes if ref.startswith("pretrain/"))
    (folder / "results" / ref / "data.txt").write_text("")
    bring_in_step(plan, Path("results"), Path(".snakemake"))
    (params,) = read(folder, f"results/{ref}/manifest.json")["params"]
    assert "0 bytes, manifest.json says" in params


def test_all_below_a_deleted_manifest_is_marked_since_snakemake_does_not_miss_it(folder):
    plan = plan_of(folder)
    ref = next(ref for ref in plan.nodes if ref.startswith("pretrain/"))
    (folder / "results" / ref / "manifest.json").unlink()
    bring_in_step(plan, Path("results"), Path(".snakemake"))
    below = set(plan.below({ref}))
    for other in set(plan.nodes) - {ref}:
        (params,) = read(folder, f"results/{other}/manifest.json")["params"]
        assert ("missing" in params) == (other in below), other
    assert "missing" in read(folder, "results/experiments/first/experiment.json")["params"][0]


def test_only_the_folder_of_snakemake_is_written(folder):
    before = tree_digest(folder / "results")
    bring_in_step(plan_of(folder), Path("results"), Path(".snakemake"))
    assert tree_digest(folder / "results") == before
    assert {path.name for path in folder.iterdir()} == {"config", "results", ".snakemake"}


def test_nothing_made_means_no_record(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bring_in_step(plan_of(tmp_path), Path("results"), Path(".snakemake"))
    assert list((tmp_path / ".snakemake" / "metadata").iterdir()) == []
