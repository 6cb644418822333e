"""The record of the benchmarks: the form that is compared from commit to commit, and no word on the machine that names it."""

import importlib.util
import json
import socket
from pathlib import Path

import pytest

FILE = Path(__file__).resolve().parents[2] / "benchmarks" / "record.py"


@pytest.fixture
def record(tmp_path):
    spec = importlib.util.spec_from_file_location("record", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.RESULTS = tmp_path
    return module


def test_a_row_has_every_key_and_the_ratio_is_ours_over_theirs(record):
    row = record.row("read-vs-peer", 30.0, "peer 1.0", 20.0, "MB/s", "higher", "python benchmarks/x.py")
    assert set(row) == {"name", "ours", "peer", "theirs", "ratio", "unit", "better", "commit", "command", "machine"}
    assert (row["ours"], row["theirs"], row["ratio"]) == (30.0, 20.0, 1.5)


def test_rates_are_of_the_median_and_their_ratio_is_the_median_of_the_rounds(record):
    seconds = {"ours": [1.0, 2.0, 4.0], "theirs": [2.0, 2.0, 16.0]}
    row = record.rate_row("x", seconds, 100, "MB/s", "peer", "command")
    assert (row["ours"], row["theirs"], row["ratio"]) == (50.0, 50.0, 2.0)


def test_sides_are_measured_in_turn_and_their_own_seconds_count(record):
    called = []
    sides = {"ours": lambda: called.append("ours"), "theirs": lambda: called.append("theirs") or 7.0}
    seconds = record.interleaved(sides, repeats=2, warmups=1)
    assert called == ["theirs", "ours", "ours", "theirs", "theirs", "ours"]
    assert seconds["theirs"] == [7.0, 7.0]
    assert all(0 <= each < 1 for each in seconds["ours"])


def test_a_later_record_replaces_rows_of_its_names_only(record):
    def row(name, ours):
        return record.row(name, ours, "peer", 1.0, "s", "lower", "command")

    record.write("suite", [row("b", 1.0), row("a", 2.0)])
    path = record.write("suite", [row("b", 3.0)])
    assert [(each["name"], each["ours"]) for each in json.loads(path.read_text())] == [("a", 2.0), ("b", 3.0)]


def test_the_machine_is_described_without_its_name(record):
    assert "cores" in record.machine()
    assert socket.gethostname() not in record.machine()
