"""The way of rows into three files: near copies never straddle, nothing is lost uncounted."""

import random
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smelt.data.collection import Collection, Tally, text_of
from smelt.data.documents import read_documents
from smelt.data.shingles import digest, signature
from smelt.data.split import SPLITS
from smelt.plan.errors import DataError
from smelt.plan.settings.corpus import Deduplication, Splits

HALVES = Splits(valid=0.25, test=0.25)


def collect(
    directory: Path,
    texts: list[str],
    near: str = "group",
    splits: Splits = HALVES,
    units: list[str] | None = None,
    seed: int = 1,
) -> tuple[dict[str, list[dict[str, Any]]], Tally]:
    tally = Tally()
    directory.mkdir(exist_ok=True)
    collection = Collection(directory, Deduplication(near=near, threshold=0.6, shingle=1), splits, seed, "rows", tally)
    for number, text in enumerate(texts):
        sketch = b"" if near == "ignore" else signature(text, 1, 128, seed)
        row = {"id": digest(text).hex(), "text": text, "origin": f"file:{number}"}
        collection.add(row, digest(text), sketch, units[number] if units else None)
    collection.write()
    return {name: list(read_documents(directory / f"{name}.jsonl.zst")) for name in SPLITS}, tally


def near_copies(rng: random.Random, count: int) -> list[tuple[int, str]]:
    """(family, text): copies of a text of 30 words with one word changed, a Jaccard similarity of at least 28/32."""
    found = []
    for family in range(count):
        words = [f"f{family}w{number}" for number in range(30)]
        for _ in range(rng.randrange(1, 5)):
            copy = list(words)
            copy[rng.randrange(30)] = f"x{rng.randrange(10**6)}"
            found.append((family, " ".join(copy)))
    rng.shuffle(found)
    return found


@given(st.integers(0, 10**9), st.integers(12, 30))
@settings(max_examples=15, deadline=None)
def test_near_copies_never_straddle_splits(seed: int, count: int) -> None:
    rows = near_copies(random.Random(seed), count)
    families = {text: family for family, text in rows}
    with tempfile.TemporaryDirectory() as folder:
        try:
            splits, _ = collect(Path(folder), [text for _, text in rows])
        except DataError:
            return  # so few groups may leave a split empty
        places: dict[int, set[str]] = {}
        for name, kept in splits.items():
            for row in kept:
                places.setdefault(families[row["text"]], set()).add(name)
        assert sum(map(len, splits.values())) == len(rows)
        assert all(len(names) == 1 for names in places.values())


def test_dropping_near_copies_keeps_the_first_of_each(tmp_path: Path) -> None:
    rows = near_copies(random.Random(3), 40)
    splits, tally = collect(tmp_path, [text for _, text in rows], near="drop")
    kept = {row["text"] for rows_of_split in splits.values() for row in rows_of_split}
    first = dict(reversed(rows))
    assert kept == set(first.values())
    assert tally.dropped["near copy"] == len(rows) - len(first)


def test_rows_of_one_conversation_stay_together(tmp_path: Path) -> None:
    texts = [f"message {number} of its own kind {number * 7}" for number in range(200)]
    units = [f"talk {number // 5}" for number in range(200)]
    splits, _ = collect(tmp_path, texts, near="ignore", units=units)
    places: dict[str, set[str]] = {}
    for name, rows in splits.items():
        for row in rows:
            places.setdefault(units[int(row["origin"].removeprefix("file:"))], set()).add(name)
    assert all(len(names) == 1 for names in places.values())
    assert {name for names in places.values() for name in names} == set(SPLITS)


def test_further_texts_leave_the_others_where_they_are(tmp_path: Path) -> None:
    texts = [" ".join(f"t{number}w{word}" for word in range(20)) for number in range(300)]
    few, _ = collect(tmp_path / "few", texts[:150])
    many, _ = collect(tmp_path / "many", texts)
    for name in SPLITS:
        assert [row["id"] for row in few[name]] == [
            row["id"] for row in many[name] if int(row["origin"].removeprefix("file:")) < 150
        ]


def test_rows_keep_their_order_and_nothing_else_is_left_in_the_folder(tmp_path: Path) -> None:
    texts = [f"text number {number} {'x' * number}" for number in range(100)]
    splits, _ = collect(tmp_path, texts, near="ignore")
    for rows in splits.values():
        numbers = [int(row["origin"].removeprefix("file:")) for row in rows]
        assert numbers == sorted(numbers)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(f"{name}.jsonl.zst" for name in SPLITS)


def test_the_text_of_a_conversation_is_its_messages() -> None:
    assert text_of({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}) == "a\nb"


def test_the_card_shows_the_largest_groups(tmp_path: Path) -> None:
    tally = Tally()
    collection = Collection(
        tmp_path, Deduplication(threshold=0.6, shingle=1), Splits(valid=0, test=0), 1, "rows", tally
    )
    texts = ["one two three four five six seven eight"] + [f"a b c d e f g h i j k l {number}" for number in range(4)]
    for number, text in enumerate(texts):
        collection.add(
            {"id": str(number), "text": text, "origin": f"f:{number}"}, digest(text), signature(text, 1, 128, 1)
        )
    near = collection.write().near
    assert near["groups"] == 1
    assert near["largest"] == [{"size": 4, "text": "a b c d e f g h i j k l 0", "origins": ["f:1", "f:2", "f:3"]}]


def test_reasons_are_counted_with_their_first_places() -> None:
    tally = Tally()
    for number in range(5):
        tally.drop("empty", f"f:{number}")
    assert tally.card() == {"empty": {"count": 5, "examples": ["f:0", "f:1", "f:2"]}}
    assert tally.summary() == "5 empty"


@pytest.mark.parametrize("near", ["group", "drop", "ignore"])
def test_the_files_are_the_same_each_time(tmp_path: Path, near: str) -> None:
    texts = [text for _, text in near_copies(random.Random(9), 40)]
    for name in ("one", "two"):
        collect(tmp_path / name, texts, near=near)
    for split in SPLITS:
        assert (tmp_path / "one" / f"{split}.jsonl.zst").read_bytes() == (
            tmp_path / "two" / f"{split}.jsonl.zst"
        ).read_bytes()
