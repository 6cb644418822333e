"""Plain text: a file, a paragraph or a line is a record."""

from collections.abc import Iterator
from typing import Any

from smelt.data.archives import Entry
from smelt.data.formats.record import Record
from smelt.data.lines import read_lines, read_text


def read_text_file(entry: Entry, settings: Any) -> Iterator[Record]:
    """The whole file."""
    yield Record(entry.name, {"text": read_text(entry.stream, entry.place, entry.encoding)})


def read_paragraphs(entry: Entry, settings: Any) -> Iterator[Record]:
    """What stands between empty lines; its own line breaks are kept."""
    start, lines = 0, list[str]()
    for number, line in read_lines(entry.stream, entry.place, entry.encoding):
        if line.strip():
            start = start or number
            lines.append(line)
        elif lines:
            yield Record(f"{entry.name}:{start}", {"text": "\n".join(lines)})
            start, lines = 0, []
    if lines:
        yield Record(f"{entry.name}:{start}", {"text": "\n".join(lines)})


def read_lines_of_text(entry: Entry, settings: Any) -> Iterator[Record]:
    """Each line; an empty one is counted as dropped."""
    for number, line in read_lines(entry.stream, entry.place, entry.encoding):
        yield Record(f"{entry.name}:{number}", {"text": line})
