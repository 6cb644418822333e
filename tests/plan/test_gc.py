"""smelt.plan.gc: what no experiment file reaches is listed, and goes only when asked, whole and unlocked."""

from pathlib import Path

import pytest

from small_plan import finish, load, small, tree_digest, write
from smelt import cli
from smelt.plan import gc
from smelt.plan.errors import ConfigError, SmeltError
from smelt.plan.job import lock


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    """A working directory in which the experiment was run with two settings, of which one stays."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SMELT_LOCK_WAIT", "0")
    write(tmp_path / "config", small())
    old = small()
    old["pretraining"]["short"]["max_steps"] = 7
    finish(load(tmp_path / "old", old), Path("results"))
    finish(load(tmp_path / "new", small()), Path("results"))
    return tmp_path


def nodes() -> set[str]:
    return {f"{path.parent.parent.name}/{path.parent.name}" for path in Path("results").glob("*/*/manifest.json")}


def test_unreached_nodes_are_listed_with_their_size_and_nothing_goes(folder, capsys):
    before = tree_digest(folder / "results")
    assert cli.main(["gc"]) == 0
    out = capsys.readouterr().out
    assert "Experiment files: config/config.yaml" in out
    # pretrain, convert, three evaluations, two fine-tunings, benchmark, report, archive
    assert "10 folders" in out
    assert out.count("unreached") == 10
    assert "`smelt gc --delete` removes them." in out
    assert tree_digest(folder / "results") == before


def test_deletion_removes_exactly_what_was_listed(folder, capsys):
    reached = set(load(folder / "new", small()).nodes)
    assert cli.main(["gc", "--delete"]) == 0
    assert nodes() == reached
    capsys.readouterr()
    assert cli.main(["gc"]) == 0
    assert "every node is reached" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["experiments/old.yaml", "experiments/old.yml"])
def test_every_experiment_file_of_the_folder_counts(folder, capsys, name):
    old = small()
    old["pretraining"]["short"]["max_steps"] = 7
    write(folder / "config" / "experiments", old, Path(name).name)
    assert cli.main(["gc"]) == 0
    assert "every node is reached" in capsys.readouterr().out


def test_layers_named_on_the_command_line_count_as_well(folder, capsys):
    layer = write(folder, {"pretraining": {"short": {"max_steps": 7}}}, "layer.yaml")
    assert cli.main(["gc", "--configfile", "config/config.yaml", str(layer)]) == 0
    assert "every node is reached" in capsys.readouterr().out


def test_a_node_at_work_is_kept_and_told(folder, capsys):
    (busy,) = [path for path in Path("results/pretrain").iterdir() if f"pretrain/{path.name}" not in load(folder / "new", small()).nodes]  # fmt: skip
    with lock(busy / ".lock", wait=0):
        assert cli.main(["gc", "--delete"]) == 1
    assert busy.exists()
    assert f"kept: {busy}: in use by host" in capsys.readouterr().err
    assert cli.main(["gc", "--delete"]) == 0
    assert not busy.exists()


def test_state_that_was_moved_aside_goes_from_a_node_that_stays(folder):
    ref = next(ref for ref in load(folder / "new", small()).nodes if ref.startswith("pretrain/"))
    write(folder / "results" / ref / "state.stale-1", "x", "weights")
    write(folder / "results" / ref / "state", "x", "weights")
    assert cli.main(["gc", "--delete"]) == 0
    assert not (folder / "results" / ref / "state.stale-1").exists()
    assert (folder / "results" / ref / "state" / "weights").exists()


def test_nothing_goes_if_one_experiment_file_can_t_be_read(folder, capsys):
    write(folder / "config" / "experiments", "a: [", "broken.yaml")
    before = tree_digest(folder / "results")
    assert cli.main(["gc", "--delete"]) == 2
    assert "broken.yaml:2: not YAML" in capsys.readouterr().err
    assert tree_digest(folder / "results") == before


def test_nothing_goes_if_a_source_of_an_experiment_is_missing(folder):
    config = small()
    config["corpora"]["en"]["sources"] = [{"kind": "file", "path": "absent.txt"}]
    write(folder / "config", config)
    before = tree_digest(folder / "results")
    assert cli.main(["gc", "--delete"]) == 2
    assert tree_digest(folder / "results") == before


def test_without_any_experiment_file_nothing_is_taken_for_garbage(folder):
    with pytest.raises(SmeltError, match="no experiment file is here"):
        gc.main(Path("results"), [], delete=True)
    assert nodes()


def test_what_is_no_node_is_left_alone(folder):
    write(folder / "results", "mine", "notes.txt")
    write(folder / "results" / "mine", "mine", "notes.txt")
    write(folder / "results" / "corpus", "mine", "notes.txt")
    assert cli.main(["gc", "--delete"]) == 0
    for place in ("", "mine", "corpus"):
        assert (folder / "results" / place / "notes.txt").read_text() == "mine"


def test_an_experiment_file_without_experiments_is_refused(folder):
    write(folder / "config" / "experiments", {"corpora": {}}, "layer.yaml")
    with pytest.raises(ConfigError, match="there is no experiment"):
        gc.main(Path("results"), [[path] for path in gc.experiment_files(Path("config"))], delete=True)


def test_the_view_of_an_experiment_that_is_gone_goes_and_what_a_person_put_there_stays(folder, capsys):
    for name in ("gone", "kept"):
        made = Path("results/experiments") / name
        (made / "nodes" / "corpus").mkdir(parents=True)
        (made / "nodes" / "corpus" / "en-0123456789").symlink_to("../../../../corpus/en-0123456789")
        (made / "experiment.json").write_text("{}")
    Path("results/experiments/kept/notes.txt").write_text("mine")
    assert cli.main(["gc", "--delete"]) == 0
    assert not Path("results/experiments/gone").exists()
    assert [path.name for path in Path("results/experiments/kept").iterdir()] == ["notes.txt"]
