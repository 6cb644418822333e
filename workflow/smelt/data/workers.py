"""A function over many items on several processes, in order and with bounded memory: the result depends on no thread count."""

import collections
import itertools
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from smelt.plan.errors import DataError

Item = TypeVar("Item")
Result = TypeVar("Result")

BATCH_WEIGHT = 1 << 18
"""Weight (characters, say) from which items go to a process together: large enough that their transport costs little."""
AHEAD = 3
"""Batches in work or waiting, for each process."""


def ordered_map(
    function: Callable[[Item], Result], items: Iterable[Item], threads: int, weight: Callable[[Item], int]
) -> Iterator[Result]:
    """`function` of each item, in the order of the items. With one thread it is called right here.

    Raises what `function` raises, and DataError if a process is killed (out of memory, as a rule).
    """
    batches = _batches(items, weight)
    first = list(itertools.islice(batches, 2))
    if threads < 2 or len(first) < 2:
        for batch in itertools.chain(first, batches):
            yield from map(function, batch)
        return
    # Spawned, not forked: a fork copies locks that another thread of this process may hold.
    pool = ProcessPoolExecutor(threads, multiprocessing.get_context("spawn"), _start_worker)
    waiting: collections.deque[Future[list[Result]]] = collections.deque()
    try:
        for batch in itertools.chain(first, batches):
            waiting.append(pool.submit(_run, function, batch))
            if len(waiting) > AHEAD * threads:
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()
    except BrokenProcessPool:
        raise DataError(
            "a worker process was killed, most likely for want of memory; grant the stage more, or fewer threads"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _batches(items: Iterable[Item], weight: Callable[[Item], int]) -> Iterator[list[Item]]:
    batch: list[Item] = []
    heavy = 0
    for item in items:
        batch.append(item)
        heavy += weight(item) + 64
        if heavy >= BATCH_WEIGHT:
            yield batch
            batch, heavy = [], 0
    if batch:
        yield batch


def _run(function: Callable[[Item], Result], batch: list[Item]) -> list[Result]:
    return [function(item) for item in batch]


def _start_worker() -> None:
    """A worker leaves signals to its parent, and ends when the parent does, however that ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    multiprocessing.connection.wait([sentinel])
    os._exit(1)
