"""smelt.plan.progress: a person sees how far it is, how fast and how long it still takes."""

import io
import re
from pathlib import Path

import pytest

from smelt.plan import progress
from smelt.plan.job import Job
from smelt.plan.progress import Progress, duration, shorten


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch) -> list[float]:
    """Seconds of the monotonic clock; a test moves it."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def job(terminal: io.StringIO) -> Job:
    return Job({"stage": "pretrain"}, Path("results/pretrain/mini-0123456789"), terminal=terminal)


def test_a_log_gets_a_line_every_ten_seconds_and_one_at_the_end(clock):
    out = io.StringIO()
    with Progress(job(out), 1000, "steps") as shown:
        for _ in range(100):
            clock[0] += 0.5
            shown.update(10, loss=2.5)
    lines = out.getvalue().splitlines()
    assert len(lines) == 5
    assert lines[0] == "[pretrain mini-0123456789] 200 of 1,000 steps  loss 2.5  0:40 left"
    assert lines[-1] == "[pretrain mini-0123456789] 1,000 of 1,000 steps  loss 2.5  in 0:50"


def test_a_resumed_run_counts_only_its_own_pace(clock):
    out = io.StringIO()
    with Progress(job(out), 1000, "steps", initial=900) as shown:
        clock[0] += 10
        shown.update(50)
        assert shown.rate == pytest.approx(5)
        assert "950 of 1,000 steps  0:10 left" in out.getvalue()


def test_nothing_done_yet_has_no_time_left(clock):
    assert Progress(job(io.StringIO()), 10, "rows").line() == "0 of 10 rows  – left"


def test_a_failure_prints_no_line_of_success(clock):
    out = io.StringIO()
    with pytest.raises(RuntimeError), Progress(job(out), 10, "rows"):
        raise RuntimeError
    assert out.getvalue() == ""


def test_a_terminal_gets_a_bar_unless_several_jobs_share_it(monkeypatch):
    monkeypatch.delenv("SMELT_WATCH_PARENT", raising=False)
    out = Terminal()
    with Progress(job(out), 10, "rows") as shown:
        shown.update(10, loss=1.0)
    assert re.search(r"10/10.*rows.*loss 1", out.getvalue())
    monkeypatch.setenv("SMELT_WATCH_PARENT", "x")
    assert Progress(job(Terminal()), 10, "rows")._bar is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (5.4, "0:05"), (185, "3:05"), (7384, "2:03:04"), (float("nan"), "–"), (float("inf"), "–")],
)
def test_durations_are_written_as_people_read_them(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(12345, "12,345"), (3.14159, "3.142"), (0.0003, "3.0e-04"), (12345.6, "12,346"), (0.0, "0"), ("fp32", "fp32")],
)
def test_numbers_are_written_as_people_read_them(value, text):
    assert shorten(value) == text
