"""Compressed streams: told by content, whole or an error."""

import bz2
import gzip
import io
import lzma
from collections.abc import Callable

import pytest
import zstandard

from smelt.data.compression import compression_of, unpacked
from smelt.plan.errors import DataError

TEXT = b"".join(b"line %d of a text that is long enough to fill several blocks\n" % number for number in range(12_000))
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.compress,
}


@pytest.mark.parametrize("kind", COMPRESS)
def test_what_was_compressed_comes_out_as_it_was(kind: str) -> None:
    data = COMPRESS[kind](TEXT)
    assert compression_of(data) == kind
    assert unpacked(io.BytesIO(data), "file").read() == TEXT


@pytest.mark.parametrize("kind", COMPRESS)
def test_several_streams_end_to_end_are_read_to_the_last(kind: str) -> None:
    data = COMPRESS[kind](TEXT) + COMPRESS[kind](b"") + COMPRESS[kind](b"the end\n")
    assert unpacked(io.BytesIO(data), "file").read() == TEXT + b"the end\n"


@pytest.mark.parametrize("kind", COMPRESS)
@pytest.mark.parametrize("left", [0.3, 0.9, -1], ids=["a third", "most", "all but the last byte"])
def test_a_file_that_is_cut_off_is_an_error_that_names_it(kind: str, left: float) -> None:
    data = COMPRESS[kind](TEXT)
    cut = data[: left if left == -1 else int(len(data) * left)]
    with pytest.raises(DataError, match=f"some file: cut off: the {kind} data end before their end mark"):
        unpacked(io.BytesIO(cut), "some file").read()


@pytest.mark.parametrize("kind", COMPRESS)
def test_damage_in_the_middle_is_an_error(kind: str) -> None:
    data = bytearray(
        zstandard.ZstdCompressor(write_checksum=True).compress(TEXT) if kind == "zst" else COMPRESS[kind](TEXT)
    )
    for place in range(len(data) // 2, len(data) // 2 + 40):
        data[place] ^= 0xA5
    with pytest.raises(DataError, match=f"some file: (damaged {kind} data|cut off)"):
        unpacked(io.BytesIO(bytes(data)), "some file").read()


@pytest.mark.parametrize("text", [b"", b"B", b"BZh9 is how some words begin", b"PK", b"\x1f", b"(\xb5/"])
def test_text_that_begins_like_a_compressed_file_stays_text(text: bytes) -> None:
    assert unpacked(io.BytesIO(text), "file").read() == text
