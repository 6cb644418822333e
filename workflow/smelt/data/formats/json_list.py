"""JSON: one list of objects or of texts. It is read as a whole; for what doesn't fit into memory there is JSON lines."""

import json
from collections.abc import Iterator
from typing import Any

from smelt.data.archives import Entry
from smelt.data.formats.record import Record
from smelt.data.lines import read_text
from smelt.plan.errors import DataError


def load(entry: Entry) -> Any:
    """The file's value. Raises DataError naming the line that is no JSON."""
    text = read_text(entry.stream, entry.place, entry.encoding)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(
            f"{entry.place}:{error.lineno}: not JSON ({error.msg}); mend the file, or check `format`"
        ) from None
    except RecursionError:
        raise DataError(f"{entry.place}: nested too deeply to be read; check `format`") from None


def read(entry: Entry, settings: Any) -> Iterator[Record]:
    """Each element; a text stands for an object with `text` alone."""
    value = load(entry)
    if not isinstance(value, list):
        raise DataError(f"{entry.place}: is a JSON {type(value).__name__} and no list; check `format`")
    for number, element in enumerate(value, 1):
        place = f"{entry.name}#{number}"
        if isinstance(element, str):
            yield Record(place, {"text": element})
        elif isinstance(element, dict):
            yield Record(place, element)
        else:
            raise DataError(
                f"{entry.place}#{number}: {str(element)[:40]!r} is neither an object nor a text; check `format`"
            )
