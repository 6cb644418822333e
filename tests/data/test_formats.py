"""Formats: what a record is, and errors that name file and line."""

import io
import json
from types import SimpleNamespace
from typing import Any

import pytest

from smelt.data.archives import Entry
from smelt.data.formats import READERS
from smelt.data.formats.record import Record, text_in
from smelt.plan.errors import DataError


def records(format: str, data: bytes, **settings: Any) -> list[tuple[str, dict[str, Any]]]:
    block = (
        SimpleNamespace(columns=None, delimiter="\t", quotes=False, **settings)
        if "columns" not in settings
        else SimpleNamespace(**settings)
    )
    entry = Entry("file", "archive → file", io.BytesIO(data))
    return [(record.place, record.fields) for record in READERS[format](entry, block)]


def test_plain_text_is_a_file_a_paragraph_or_a_line() -> None:
    data = b"one\ntwo\n\n \n\nthree\r\nfour\r\n"
    assert records("text", data) == [("file", {"text": data.decode()})]
    assert records("paragraphs", data) == [("file:1", {"text": "one\ntwo"}), ("file:6", {"text": "three\nfour"})]
    assert [fields["text"] for _, fields in records("lines", data)] == ["one", "two", "", " ", "", "three", "four"]


def test_json_lines_and_json_lists_give_their_objects() -> None:
    assert records("jsonl", b'{"text": "a\\nb"}\n\n{"text": "c", "n": 1}') == [
        ("file:1", {"text": "a\nb"}),
        ("file:3", {"text": "c", "n": 1}),
    ]
    assert records("json", b'["a", {"text": "b"}]') == [("file#1", {"text": "a"}), ("file#2", {"text": "b"})]


@pytest.mark.parametrize(
    ("format", "data", "what"),
    [
        ("jsonl", b'{"text": "a"}\n{"text": \n', "archive → file:2: not JSON"),
        ("jsonl", b'"a"\n', "file:1: .* is no object"),
        ("jsonl", b"[" * 100_000, "file:1: not JSON"),
        ("json", b'[{"text": "a"},\n{]', "archive → file:2: not JSON"),
        ("json", b'{"text": "a"}', "is a JSON dict and no list"),
        ("json", b"[1]", "file#1: '1' is neither an object nor a text"),
        ("json", b"[" * 100_000, "nested too deeply"),
        ("table", b"id\ttext\n1\ta\tb\n", "file:2: 3 columns, not the 2 of id, text"),
        ("table", b"id\tid\n", "file:1: names a column twice"),
        ("lines", b"ok\n\xff\n", "file:2: byte 0xff at offset 3"),
        ("paragraphs", b"\xff\n", "file:1: byte 0xff"),
        ("text", b"a\n\xff\n", "file:2: byte 0xff"),
    ],
)
def test_what_is_not_in_the_format_is_told_with_file_and_line(format: str, data: bytes, what: str) -> None:
    with pytest.raises(DataError, match=what):
        records(format, data)


def test_a_table_has_its_names_in_the_first_line_or_in_the_settings() -> None:
    assert records("table", b"id\ttext\n1\ta b\n\n2\t\n") == [
        ("file:2", {"id": "1", "text": "a b"}),
        ("file:4", {"id": "2", "text": ""}),
    ]
    given = records("table", b"1|a\n", columns=["id", "text"], delimiter="|", quotes=False)
    assert given == [("file:1", {"id": "1", "text": "a"})]


def test_quotes_hold_delimiters_and_line_breaks_where_the_settings_say_so() -> None:
    data = b'a,"say ""x"", then\nmore"\nb,c\n'
    rows = records("table", data, columns=["id", "text"], delimiter=",", quotes=True)
    assert [fields for _, fields in rows] == [{"id": "a", "text": 'say "x", then\nmore'}, {"id": "b", "text": "c"}]
    assert records("table", b'"a\t"b"\n', columns=["id", "text"], delimiter="\t", quotes=False)[0][1] == {
        "id": '"a',
        "text": '"b"',
    }
    with pytest.raises(DataError, match=r"file:1: "):
        records("table", b'a,"open\n', columns=["id", "text"], delimiter=",", quotes=True)


def test_a_missing_key_names_those_that_are_there() -> None:
    with pytest.raises(DataError, match=r"file:1: has no key 'text'; it has 'body', 'id'"):
        text_in(Record("file:1", {"body": "x", "id": 1}), "text")
    with pytest.raises(DataError, match=r"'text' is '7' and no text"):
        text_in(Record("file:1", {"text": 7}), "text")
    assert text_in(Record("file:1", {"text": None}), "text") == ""


def test_json_without_ascii_only_is_read_as_written() -> None:
    text = "𠮷野家 \u2028 café"
    assert records("jsonl", json.dumps({"text": text}, ensure_ascii=False).encode())[0][1]["text"] == text
