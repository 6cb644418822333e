"""Formats of files: name in the settings → reader. A format is one function in one file, and one line here."""

from collections.abc import Callable, Iterator
from typing import Any

from smelt.data.archives import Entry
from smelt.data.formats import json_list, jsonl, mediawiki, plain, table
from smelt.data.formats.record import Record

READERS: dict[str, Callable[[Entry, Any], Iterator[Record]]] = {
    "text": plain.read_text_file,
    "paragraphs": plain.read_paragraphs,
    "lines": plain.read_lines_of_text,
    "jsonl": jsonl.read,
    "json": json_list.read,
    "table": table.read,
    "mediawiki": mediawiki.read,
}
"""A reader gets a file and the block of settings (a corpus or a task) and yields records. It raises DataError naming the place."""
