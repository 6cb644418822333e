"""Rows on their way into three files: exact copies dropped, near copies grouped or dropped, groups shared out.

Rows wait in a compressed file beside the results; what is held in memory for each is its digest and its signature. So the
result depends on the rows and their order alone, and memory grows by some 650 bytes a row, however long the texts are.
"""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from smelt.data.dedup import Groups, near_groups
from smelt.data.documents import DocumentWriter, read_documents
from smelt.data.split import SPLITS, check_splits, split_of
from smelt.data.words import count_words
from smelt.plan.errors import DataError
from smelt.plan.settings.corpus import Deduplication, Splits

EXAMPLES = 3
"""Places named for each reason why rows were dropped."""
GROUPS_SHOWN = 10
"""Largest groups of near copies in the card."""
SHOWN = 80
"""Characters of a text in the card."""


@dataclass
class Tally:
    """What was read and why rows were dropped, with the places of the first few."""

    read: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    altered: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def drop(self, reason: str, place: str) -> None:
        self.dropped[reason] += 1
        examples = self.examples.setdefault(reason, [])
        if len(examples) < EXAMPLES:
            examples.append(place)

    def card(self) -> dict[str, Any]:
        """Reason → {count, examples}."""
        return {
            reason: {"count": count, "examples": self.examples.get(reason, [])}
            for reason, count in sorted(self.dropped.items())
        }

    def summary(self) -> str:
        """For a message: what became of all rows."""
        return ", ".join(f"{count:,} {reason}" for reason, count in self.dropped.most_common()) or "none dropped"


@dataclass
class Written:
    """What came of it, by split."""

    rows: dict[str, int]
    bytes: dict[str, int]
    characters: dict[str, int]
    words: dict[str, int]
    labels: dict[str, Counter[str]]
    near: dict[str, Any]
    """Number of groups of near copies, rows in them, the largest ones."""


class Collection:
    """`add` rows in their order, then `write` once."""

    def __init__(
        self, directory: Path, deduplication: Deduplication, splits: Splits, seed: int, what: str, tally: Tally
    ) -> None:
        self.directory, self.deduplication, self.splits, self.seed = directory, deduplication, splits, seed
        self.what, self.tally = what, tally
        self._waiting = directory / "waiting.jsonl.zst"
        self._writer = DocumentWriter(self._waiting)
        self._digests: list[bytes] = []
        self._signatures = bytearray()
        self._units: list[str] = []
        self._left_out: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._digests)

    def add(self, row: dict[str, Any], digest: bytes, signature: bytes, unit: str | None = None) -> None:
        """A row (with `id`, `origin` and its text), the digest and the MinHash signature of its text; rows of one `unit` stay together."""
        self._writer.write(row)
        self._digests.append(digest)
        self._signatures += signature
        if unit is not None:
            self._units.append(unit)

    def leave_out(self, digest: bytes) -> None:
        """Drop the row with this digest after all, when it comes to writing."""
        self._left_out.add(digest)

    def write(self) -> Written:
        """Make `train`, `valid` and `test` in the directory. Raises DataError for a split that comes out empty."""
        with self._writer:
            pass
        near = self._near_groups()
        groups = Groups(len(self)) if self.deduplication.near == "drop" or near is None else near
        names = near.names() if near else list(range(len(self)))
        if self._units:
            groups.join_equal(self._units)
        keys = self._keys(groups)
        written = self._share_out(names, groups, keys)
        self._waiting.unlink()
        check_splits(written.rows, len(keys), self.splits, self.what)
        return written

    def _near_groups(self) -> Groups | None:
        import numpy as np

        if self.deduplication.near == "ignore" or not self._digests:
            return None
        signatures = np.frombuffer(self._signatures, dtype=np.uint32).reshape(
            len(self), self.deduplication.permutations
        )
        return near_groups(signatures, self.deduplication.threshold)

    def _keys(self, groups: Groups) -> dict[int, bytes]:
        """Group → the smallest digest in it: what decides its split, whatever else is in the collection."""
        keys: dict[int, bytes] = {}
        for item, digest in enumerate(self._digests):
            name = groups.find(item)
            keys[name] = min(digest, keys.get(name, digest))
        return keys

    def _share_out(self, near: list[int], groups: Groups, keys: dict[int, bytes]) -> Written:
        counts = {measure: dict.fromkeys(SPLITS, 0) for measure in ("rows", "bytes", "characters", "words")}
        labels: dict[str, Counter[str]] = {name: Counter() for name in SPLITS}
        clusters = _Clusters(near)
        kept: set[int] = set()
        writers = {name: DocumentWriter(self.directory / f"{name}.jsonl.zst") for name in SPLITS}
        with writers["train"], writers["valid"], writers["test"]:
            for item, row in enumerate(read_documents(self._waiting)):
                if self._digests[item] in self._left_out:
                    self.tally.drop("copies with different labels", row["origin"])
                    continue
                clusters.see(item, row)
                if self.deduplication.near == "drop" and near[item] in kept:
                    self.tally.drop("near copy", row["origin"])
                    continue
                kept.add(near[item])
                split = split_of(keys[groups.find(item)], self.splits, self.seed)
                writers[split].write(row)
                text = text_of(row)
                counts["rows"][split] += 1
                counts["bytes"][split] += len(text.encode())
                counts["characters"][split] += len(text)
                counts["words"][split] += count_words(text)
                if "label" in row:
                    labels[split][row["label"]] += 1
        return Written(**counts, labels=labels, near=clusters.card(self.deduplication))


class _Clusters:
    """The largest groups of near copies, for the card."""

    def __init__(self, names: list[int]) -> None:
        sizes = Counter(names)
        self._many = {name: size for name, size in sizes.items() if size > 1}
        largest = sorted(self._many, key=lambda name: (-self._many[name], name))[:GROUPS_SHOWN]
        self._names, self._shown = (
            names,
            {name: {"size": self._many[name], "text": "", "origins": []} for name in largest},
        )

    def see(self, item: int, row: dict[str, Any]) -> None:
        shown = self._shown.get(self._names[item])
        if shown is None:
            return
        shown["text"] = shown["text"] or text_of(row)[:SHOWN]
        if len(shown["origins"]) < EXAMPLES:
            shown["origins"].append(row["origin"])

    def card(self, settings: Deduplication) -> dict[str, Any]:
        return {
            "what becomes of them": settings.near,
            "threshold": settings.threshold,
            "groups": len(self._many),
            "rows in groups": sum(self._many.values()),
            "largest": list(self._shown.values()),
        }


def text_of(row: dict[str, Any]) -> str:
    """The text of a document or of a labelled row; the messages of a conversation, a line each."""
    return row["text"] if "text" in row else "\n".join(message["content"] for message in row["messages"])


def check_not_empty(collection: Collection, tally: Tally, what: str) -> None:
    """Raises DataError if nothing was kept, saying why."""
    if not len(collection):
        raise DataError(
            f"no {what} are left: {tally.read:,} were read, {tally.summary()}. Check `format`, `member` and `cleaning`"
        )
