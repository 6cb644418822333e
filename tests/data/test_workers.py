"""Work on several processes: same results, in order, and no silence when a process dies."""

import os
import signal
import time
from collections.abc import Iterator

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
