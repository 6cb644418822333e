"""Tables: columns with a character between them, as TSV and CSV files have."""

import csv
from collections.abc import Iterator
from typing import Any

from smelt.data.archives import Entry
from smelt.data.formats.record import Record
from smelt.data.lines import LONGEST_TEXT, read_lines
from smelt.plan.errors import DataError


def read(entry: Entry, settings: Any) -> Iterator[Record]:
    """Each row by its columns' names. Raises DataError for a row with more or fewer columns."""
    columns = settings.columns
    for number, values in _rows(entry, settings.delimiter, settings.quotes):
        if not values or values == [""]:
            continue
        if columns is None:
            columns = values
            if len(set(columns)) < len(columns):
                raise DataError(
                    f"{entry.place}:{number}: names a column twice ({', '.join(columns)}); name them in `columns`"
                )
            continue
        if len(values) != len(columns):
            raise DataError(
                f"{entry.place}:{number}: {len(values)} columns, not the {len(columns)} of {', '.join(columns)}; "
                "check `columns`, `delimiter` and `quotes`, or mend the row"
            )
        yield Record(f"{entry.name}:{number}", dict(zip(columns, values, strict=True)))


def _rows(entry: Entry, delimiter: str, quotes: bool) -> Iterator[tuple[int, list[str]]]:
    """(line on which the row ends, its values)"""
    lines = read_lines(entry.stream, entry.place, entry.encoding)
    if not quotes:
        for number, line in lines:
            yield number, line.split(delimiter) if line else []
        return
    csv.field_size_limit(LONGEST_TEXT)
    reader = csv.reader((line + "\n" for _, line in lines), delimiter=delimiter, strict=True)
    while True:
        try:
            values = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise DataError(
                f"{entry.place}:{reader.line_num}: {error}; check `quotes` and `delimiter`, or mend the row"
            ) from None
        yield reader.line_num, values
