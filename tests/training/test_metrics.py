"""The record of a training: one line a point, without gaps, doubles or timings where they do not belong."""

import json
import os

import pytest

from smelt.training.metrics import Metrics


def lines(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def record(folder, start, stop, at=0):
    metrics = Metrics(folder, at, 10)
    for step in range(start, stop):
        metrics.add(step, step * 100, loss=1 / 3 + step, learning_rate=0.1, tokens_per_second=7.0)
    metrics.close()
    return metrics


def test_a_resumed_record_holds_each_step_once(tmp_path):
    record(tmp_path, 1, 8)
    resumed = record(tmp_path, 6, 11, at=5)
    assert [row["step"] for row in lines(tmp_path)] == list(range(1, 11))
    assert resumed.curve() == record(tmp_path / "whole", 1, 11).curve()


def test_a_line_cut_off_by_a_kill_is_dropped(tmp_path):
    record(tmp_path, 1, 4)
    path = tmp_path / "metrics.jsonl"
    path.write_text(path.read_text()[:-20])
    assert [row["step"] for row in record(tmp_path, 3, 5, at=2).rows] == [1, 2, 3, 4]


@pytest.mark.parametrize("broken", [b"\0" * 40, b'{"step": 3, "lo', b"\xff\xfe", b"[3]", b'{"loss": 1}'])
def test_a_line_that_a_power_cut_broke_ends_the_record_and_not_the_training(tmp_path, broken):
    record(tmp_path, 1, 6)
    path = tmp_path / "metrics.jsonl"
    kept = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([*kept[:2], broken, *kept[3:], b""]))
    assert [row["step"] for row in record(tmp_path, 6, 7, at=5).rows] == [1, 2, 6]


def test_what_came_before_a_checkpoint_is_on_the_disk(tmp_path, monkeypatch):
    synced = []
    true = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (synced.append(os.fstat(file).st_ino), true(file)))
    metrics = Metrics(tmp_path, 0, 10)
    metrics.add(1, 100, loss=1.0)
    metrics.sync()
    assert metrics.path.stat().st_ino in synced
    assert lines(tmp_path)[0]["loss"] == 1.0
    metrics.close()


def test_the_curve_holds_no_time(tmp_path):
    metrics = record(tmp_path, 1, 3)
    assert {"time", "total", "tokens_per_second"} <= set(lines(tmp_path)[0])
    assert metrics.curve()[0] == {"step": 1, "tokens": 100, "loss": 1 / 3 + 1, "learning_rate": 0.1}


def test_people_see_the_same_numbers_in_tensorboard(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    record(tmp_path, 1, 4)
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(event.step, round(event.value, 4)) for event in events.Scalars("loss")] == [
        (1, 1.3333),
        (2, 2.3333),
        (3, 3.3333),
    ]
