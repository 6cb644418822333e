"""Labelled rows: text, label, and the rules for both."""

import math
from collections.abc import Iterator
from typing import NamedTuple

from smelt.data.archives import Entry
from smelt.data.cleaning import clean
from smelt.data.collection import Tally
from smelt.data.formats import READERS
from smelt.data.formats.record import Record, text_in
from smelt.data.shingles import digest
from smelt.plan.errors import DataError
from smelt.plan.settings.source import excluded
from smelt.plan.settings.task import Classification, ColumnLabel, FileLabel, RatingLabel


class LabelledRow(NamedTuple):
    """A row that passed."""

    place: str
    digest: bytes
    text: str
    label: str


class LabelledRows:
    """Reads rows, drops copies, and remembers which texts have two labels."""

    def __init__(self, settings: Classification, tally: Tally) -> None:
        self.settings, self.tally = settings, tally
        self.labels: dict[bytes, str] = {}
        self.disputed: set[bytes] = set()
        """Digests of texts that stand there with different labels: none of their copies can be trusted."""

    def read(self, entry: Entry) -> Iterator[LabelledRow]:
        """The rows of a file that pass, each text once."""
        for record in READERS[self.settings.format](entry, self.settings):
            self.tally.read += 1
            label, reason = label_of(record, entry, self.settings)
            text = text_in(record, self.settings.text if self.settings.format in ("table", "jsonl", "json") else "text")
            cleaned = clean(text, self.settings.cleaning)
            self.tally.altered.update(cleaned.altered)
            if label is None or cleaned.dropped:
                self.tally.drop(reason or str(cleaned.dropped), record.place)
                continue
            row = LabelledRow(record.place, digest(cleaned.text), cleaned.text, label)
            known = self.labels.get(row.digest)
            if known is None:
                self.labels[row.digest] = label
                yield row
            elif known == label:
                self.tally.drop("exact copy", record.place)
            else:
                self.disputed.add(row.digest)
                self.tally.drop("copies with different labels", record.place)


def label_of(record: Record, entry: Entry, settings: Classification) -> tuple[str | None, str | None]:
    """(label, None), or (None, why the row has none). Raises DataError for what can't be read as the settings say."""
    rule = settings.label
    if isinstance(rule, FileLabel):
        return _by_file(entry, rule), None
    if rule.column not in record.fields:
        raise DataError(
            f"{record.place}: has no column {rule.column!r}; it has {', '.join(map(repr, record.fields))}; set `label.column`"
        )
    value = record.fields[rule.column]
    if isinstance(rule, RatingLabel):
        return _by_rating(record, value, rule)
    return _by_column(record, value, rule)


def _by_file(entry: Entry, rule: FileLabel) -> str:
    for pattern, label in rule.names.items():
        if excluded(entry.name, [pattern]):
            return label
    raise DataError(
        f"{entry.place}: none of the globs {', '.join(map(repr, rule.names))} fits this file; add one to `label.names`, or exclude it"
    )


def _by_rating(record: Record, value: object, rule: RatingLabel) -> tuple[str | None, str | None]:
    try:
        distance = float(value) - rule.centre  # type: ignore[arg-type]
    except (TypeError, ValueError):
        distance = math.nan
    if math.isnan(distance):
        raise DataError(
            f"{record.place}: {rule.column!r} is {str(value)[:40]!r} and no number; check `columns` and `label.column`"
        )
    if abs(distance) < rule.margin or distance == 0:
        return None, f"rating within {rule.margin:g} of {rule.centre:g}"
    return (rule.high if distance > 0 else rule.low), None


def _by_column(record: Record, value: object, rule: ColumnLabel) -> tuple[str | None, str | None]:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise DataError(
            f"{record.place}: {rule.column!r} is {str(value)[:40]!r}, neither text nor a whole number; check `label.column`"
        )
    text = str(value).strip()
    if not text:
        return None, "no label"
    if rule.names and text not in rule.names:
        return None, "label not in label.names"
    return rule.names.get(text, text), None
