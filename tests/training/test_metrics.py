"""The record of a training: one line a point, without gaps, doubles or timings where they do not belong."""

import json

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
