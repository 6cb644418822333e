"""What every format yields."""

from typing import Any, NamedTuple

from smelt.plan.errors import DataError


class Record(NamedTuple):
    """One document or row as it stands in the file."""

    place: str
    """File and line (or number), for messages and for the `origin` of a row."""
    fields: dict[str, Any]
    """Key or column → value; `text` in formats that have no names."""
    dropped: str | None = None
    """Why the format itself leaves it out."""


def text_in(record: Record, key: str) -> str:
    """The text under `key`. Raises DataError if there is no such key, or no text; what is null is empty."""
    if key not in record.fields:
        raise DataError(
            f"{record.place}: has no key {key!r}; it has {', '.join(map(repr, record.fields)) or 'none'}; set the key in the settings"
        )
    value = record.fields[key]
    if value is None:
        return ""
    if not isinstance(value, str):
        raise DataError(
            f"{record.place}: {key!r} is {str(value)[:40]!r} and no text; set the key of the text in the settings"
        )
    return value
