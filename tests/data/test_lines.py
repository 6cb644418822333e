"""Lines of text files: ends, marks and bytes that are no text."""

import io

import pytest

from smelt.data.lines import read_lines, read_text
from smelt.plan.errors import DataError


def lines(data: bytes, encoding: str = "utf-8") -> list[tuple[int, str]]:
    return list(read_lines(io.BytesIO(data), "file.txt", encoding))


def test_lines_are_numbered_and_lose_their_ends() -> None:
    assert lines(b"a\r\nb\n\nc\u2028d".decode("unicode_escape").encode()) == [
        (1, "a"),
        (2, "b"),
        (3, ""),
        (4, "c\u2028d"),
    ]


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    assert lines(b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n") == [(1, "a"), (2, "\ufeffb")]
    assert read_text(io.BytesIO(b"\xef\xbb\xbfa"), "file.txt") == "a"


def test_a_byte_that_is_not_utf8_is_told_with_file_line_and_offset() -> None:
    data = "one\nzwei\ndréi ".encode() + b"\xe9\n"
    with pytest.raises(
        DataError, match=r"file\.txt:3: byte 0xe9 at offset 15 is not UTF-8; set the source's `encoding`"
    ):
        lines(data)
    with pytest.raises(DataError, match=r"file\.txt:3: byte 0xe9 at offset 15 "):
        read_text(io.BytesIO(data), "file.txt")


@pytest.mark.parametrize(
    ("encoding", "text"), [("latin-1", "café"), ("gb18030", "中文\n字"), ("big5", "中文\n字"), ("cp1252", "“x”")]
)
def test_other_encodings_are_read_line_by_line(encoding: str, text: str) -> None:
    assert [line for _, line in lines(text.encode(encoding), encoding)] == text.split("\n")
