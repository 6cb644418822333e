"""Work on several processes: same results, in order, and no silence when a process dies."""

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from smelt.data.workers import ordered_map
from smelt.plan.errors import DataError


def _double(number: int) -> int:
    time.sleep(0.02 if number % 7 == 0 else 0)
    return 2 * number


def _fail(number: int) -> int:
    if number == 30:
        raise DataError("file:30: bad")
    return number


def _die(number: int) -> int:
    if number == 20:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def heavy(_: int) -> int:
    """Four items fill a batch."""
    return 1 << 16


@pytest.mark.parametrize("threads", [1, 2])
def test_results_come_in_the_order_of_the_items(threads: int) -> None:
    assert list(ordered_map(_double, range(60), threads, heavy)) == [2 * number for number in range(60)]


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_of_one_item_is_raised_as_it_is(threads: int) -> None:
    with pytest.raises(DataError, match=r"file:30: bad"):
        list(ordered_map(_fail, range(60), threads, heavy))


def test_a_killed_process_is_an_error() -> None:
    with pytest.raises(DataError, match=r"worker process was killed"):
        list(ordered_map(_die, range(60), 2, heavy))


def test_items_are_read_as_they_are_needed() -> None:
    taken = 0

    def endless() -> Iterator[int]:
        nonlocal taken
        while True:
            taken += 1
            yield taken

    results = ordered_map(_double, endless(), 2, heavy)
    assert [next(results) for _ in range(8)] == [2, 4, 6, 8, 10, 12, 14, 16]
    results.close()
    assert taken < 100


def _stay(number: int) -> int:
    (Path(os.environ["PIDS"]) / str(os.getpid())).touch()
    time.sleep(60)
    return number


def _run_for_long() -> None:
    list(ordered_map(_stay, range(60), 2, heavy))


def alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")
def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIDS", str(tmp_path))
    parent = multiprocessing.get_context("spawn").Process(target=_run_for_long)
    parent.start()
    deadline = time.monotonic() + 60
    while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    workers = [int(path.name) for path in tmp_path.iterdir()]
    assert len(workers) == 2
    parent.kill()
    parent.join(10)
    while any(map(alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, workers))
