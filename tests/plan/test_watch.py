"""smelt.plan.watch: how far each node is, from the files that it writes."""

import io
import json
import os
from pathlib import Path

import pytest

from small_plan import finish_node, load, small, write
from smelt import cli
from smelt.plan import watch
from smelt.plan.errors import SmeltError
from smelt.plan.plan import Plan

NOW = 2_000_000_000.0


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return load(tmp_path, small())


@pytest.fixture
def pretrain(plan: Plan, tmp_path: Path) -> Path:
    return tmp_path / "results" / next(ref for ref in plan.nodes if ref.startswith("pretrain/"))


def metrics(folder: Path, steps: list[int], tail: str = "", age: float = 5) -> None:
    """One line for each step, two seconds apart a step, the last one `age` seconds before NOW."""
    lines = [
        json.dumps({"step": step, "total": 100, "loss": 5 - step / 50, "learning_rate": 1e-3, "tokens_per_second": 800.0, "time": NOW - age - 2 * (steps[-1] - step)})
        for step in steps
    ]  # fmt: skip
    path = write(folder / "state", "\n".join(lines) + ("\n" if lines else "") + tail, "metrics.jsonl")
    os.utime(path, (NOW - age, NOW - age))


def row(plan: Plan, folder: Path) -> watch.Row:
    (found,) = [row for row in watch.rows(plan, "first", folder.parents[1], NOW) if row.ref.endswith(folder.name)]
    return found


def test_nothing_made_waits(plan, tmp_path):
    found = watch.rows(plan, "first", tmp_path / "results", NOW)
    assert [row.ref for row in found] == plan.experiments["first"]
    assert {row.state for row in found} == {"waiting"}


def test_a_training_shows_step_loss_rate_and_time_left(plan, pretrain):
    metrics(pretrain, [10, 20, 40])
    assert row(plan, pretrain) == watch.Row(
        row(plan, pretrain).ref, "running", 40, 100, 4.2, 800.0, seconds_left=pytest.approx(120)
    )


@pytest.mark.parametrize("tail", ['{"step": 60, "tot', '{"step": 60, "total": 100}', "\x00\x00", "null"])
def test_a_line_that_is_being_written_is_left_for_the_next_look(plan, pretrain, tail):
    metrics(pretrain, [10, 20], tail)
    assert row(plan, pretrain).step == 20


@pytest.mark.parametrize("line", ["{broken}\n", "[1]\n", '{"step": 3}\n', "\n"])
def test_a_broken_line_breaks_nothing(plan, pretrain, line):
    metrics(pretrain, [10, 20], line)
    found = row(plan, pretrain)
    assert (found.state, found.step) == ("running", 20)


def test_one_line_has_no_pace_yet(plan, pretrain):
    metrics(pretrain, [10])
    assert row(plan, pretrain).seconds_left is None


def test_a_resumed_training_that_logs_an_earlier_step_has_no_pace(plan, pretrain):
    metrics(pretrain, [40, 30])
    assert row(plan, pretrain).seconds_left is None


def test_only_the_end_of_a_long_file_is_read(plan, pretrain):
    metrics(pretrain, list(range(1, 5001)))
    assert row(plan, pretrain).step == 5000


def test_a_silent_node_counts_as_stopped_and_a_finished_one_as_done(plan, pretrain, tmp_path):
    metrics(pretrain, [10, 20], age=watch.QUIET_SECONDS + 1)
    assert row(plan, pretrain).state == "stopped"
    (node,) = [node for node in plan.nodes.values() if node.stage == "corpus"]
    finish_node(node, tmp_path / "results")
    found = row(plan, tmp_path / "results" / node.ref)
    assert (found.state, found.seconds) == ("done", 2.0)


def test_a_node_without_metrics_runs_while_its_log_is_written(plan, tmp_path):
    (ref,) = [ref for ref in plan.nodes if ref.startswith("corpus/")]
    log = write(tmp_path / "results" / ref, "working", "log.txt")
    os.utime(log, (NOW - 1, NOW - 1))
    assert row(plan, tmp_path / "results" / ref).state == "running"


def test_the_table_is_drawn(plan, pretrain, tmp_path):
    from rich.console import Console

    metrics(pretrain, [10, 20])
    out = io.StringIO()
    Console(file=out, width=120).print(watch.table(watch.rows(plan, "first", tmp_path / "results", NOW), "first"))
    assert "20 of 100" in out.getvalue()
    assert "2:40" in out.getvalue()


def test_watch_once_prints_and_leaves(plan, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["watch", "--once", "--configfile", str(write(tmp_path, small()))]) == 0
    assert "waiting" in capsys.readouterr().out


def test_an_unknown_experiment_is_told_with_those_there_are(plan, tmp_path):
    with pytest.raises(SmeltError, match="no experiment is named 'frist'; the configuration has first"):
        watch.rows(plan, "frist", tmp_path)


def test_a_measurement_of_the_validation_hides_neither_loss_nor_time_left(plan, pretrain):
    metrics(pretrain, [10, 20, 40], json.dumps({"step": 40, "total": 100, "valid_loss": 4.0, "time": NOW}) + "\n")
    found = row(plan, pretrain)
    assert (found.loss, found.tokens_per_second, found.seconds_left) == (4.2, 800.0, pytest.approx(120))
