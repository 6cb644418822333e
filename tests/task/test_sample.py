"""A sample drawn in one pass: the units with the smallest keyed hashes, whatever their order."""

import random

import pytest

from smelt.data.split import position
from smelt.task.sample import Sample

UNITS = [(f"unit {number}".encode(), [f"{number}.{row}" for row in range(1 + number % 4)]) for number in range(300)]


def drawn(units: list[tuple[bytes, list[str]]], rows: int | None, seed: int = 1) -> list[str]:
    sample: Sample[str] = Sample(rows, seed)
    for name, content in units:
        sample.add(name, content)
    return list(sample.rows())


@pytest.mark.parametrize("wanted", [1, 2, 17, 100, 749])
def test_the_sample_has_the_wanted_rows_of_the_units_with_the_smallest_hashes(wanted: int) -> None:
    expected: list[str] = []
    for _, content in sorted(UNITS, key=lambda unit: position(unit[0], 1, "sample")):
        expected += content[: wanted - len(expected)]
    found = drawn(UNITS, wanted)
    assert sorted(found) == sorted(expected)
    assert len(found) == wanted


def test_the_sample_does_not_depend_on_the_order_of_the_units_and_keeps_it() -> None:
    shuffled = random.Random(2).sample(UNITS, len(UNITS))
    assert sorted(drawn(shuffled, 100)) == sorted(drawn(UNITS, 100))
    numbers = [int(row.split(".")[0]) for row in drawn(UNITS, 100)]
    assert numbers == sorted(numbers)


def test_without_a_bound_all_rows_are_there() -> None:
    everything = [row for _, content in UNITS for row in content]
    assert drawn(UNITS, None) == everything
    assert drawn(UNITS, 10_000) == everything
    assert drawn([], 5) == []


def test_another_seed_draws_another_sample() -> None:
    assert set(drawn(UNITS, 100, 1)) != set(drawn(UNITS, 100, 2))
