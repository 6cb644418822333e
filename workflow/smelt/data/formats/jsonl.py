"""JSON lines: an object on each line."""

import json
from collections.abc import Iterator
from typing import Any

from smelt.data.archives import Entry
from smelt.data.formats.record import Record
from smelt.data.lines import read_lines
from smelt.plan.errors import DataError


def read(entry: Entry, settings: Any) -> Iterator[Record]:
    """Each line's object; lines without any character are passed over, as every reader of the format does."""
    for number, line in read_lines(entry.stream, entry.place, entry.encoding):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            raise DataError(f"{entry.place}:{number}: not JSON ({error}); mend the line, or check `format`") from None
        if not isinstance(value, dict):
            raise DataError(f"{entry.place}:{number}: {line[:40]!r} is no object; check `format`")
        yield Record(f"{entry.name}:{number}", value)
