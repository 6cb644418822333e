"""A random sample of rows, drawn in one pass with memory for the sample alone."""

import heapq
from collections.abc import Iterator
from typing import Generic, TypeVar

from smelt.data.split import position

Row = TypeVar("Row")


class Sample(Generic[Row]):
    """Keeps the units (a conversation, a row) with the smallest keyed hashes, until they hold `rows` rows.

    The hash decides, so the sample depends neither on the order of the units nor on what else is there.
    """

    def __init__(self, rows: int | None, seed: int) -> None:
        self._wanted, self._seed = rows, seed
        self._held = 0
        self._units: list[tuple[float, int, list[Row]]] = []
        """A heap with the largest hash on top: (-hash, order, rows)."""
        self._order = 0

    def add(self, unit: bytes, rows: list[Row]) -> None:
        """Offer a unit, named by `unit`."""
        self._order += 1
        heapq.heappush(self._units, (-position(unit, self._seed, "sample"), self._order, rows))
        self._held += len(rows)
        while self._wanted is not None and self._held - len(self._units[0][2]) >= self._wanted:
            self._held -= len(heapq.heappop(self._units)[2])

    def rows(self) -> Iterator[Row]:
        """The rows of the sample in the order in which they were offered; of the unit that is too much, the first ones."""
        surplus = max(0, self._held - self._wanted) if self._wanted is not None else 0
        last = self._units[0][1] if self._units else 0
        for _, order, rows in sorted(self._units, key=lambda unit: unit[1]):
            yield from rows[: len(rows) - surplus] if order == last else rows
