"""Documents on disk: what goes in comes out, equal rows give equal bytes, damage is found."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from smelt.data.documents import DocumentWriter, read_documents, write_documents
from smelt.plan.errors import DataError

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=60)


@given(st.lists(st.fixed_dictionaries({"id": TEXT, "text": TEXT}), max_size=8))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_text_comes_back_as_it_was(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    path = tmp_path / "rows.jsonl.zst"
    assert write_documents(path, rows) == len(rows)
    assert list(read_documents(path)) == rows


def test_the_line_feed_is_the_only_line_break_in_the_file(tmp_path: Path) -> None:
    import zstandard

    text = "a\nb\r\nc\u2028d\u2029e\x0bf\x0cg\x85h"
    write_documents(tmp_path / "rows", [{"text": text}, {"text": "次"}])
    raw = zstandard.ZstdDecompressor().stream_reader((tmp_path / "rows").open("rb")).read()
    assert raw.count(b"\n") == 2
    assert "次".encode() in raw
    assert next(read_documents(tmp_path / "rows"))["text"] == text


def test_two_processes_write_equal_bytes(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from smelt.data.documents import write_documents;"
        "write_documents(Path(sys.argv[1]), ({'id': str(n), 'text': 'text %d ' % n * (n % 50), 'x': {'b': 1, 'a': 2}} for n in range(5000)))"
    )
    for name, seed in (("one", "1"), ("two", "2")):
        subprocess.run([sys.executable, "-c", program, str(tmp_path / name)], check=True, env={"PYTHONHASHSEED": seed})
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_cut_off_file_is_refused_wherever_it_was_cut(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.zst"
    write_documents(path, ({"id": str(n), "text": f"text {n}"} for n in range(2000)))
    whole = path.read_bytes()
    for length in (1, 4, 20, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match=r"rows\.jsonl\.zst"):
            list(read_documents(path))


def test_a_flipped_byte_is_found(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.zst"
    write_documents(path, ({"id": str(n), "text": f"text {n}"} for n in range(2000)))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"rows\.jsonl\.zst"):
        list(read_documents(path))


@pytest.mark.parametrize(
    ("line", "what"), [(b'{"text": "a"', "not JSON"), (b"[1]", "is not an object"), (b'"\xff"', "0xff at offset 15")]
)
def test_a_bad_line_is_named(tmp_path: Path, line: bytes, what: str) -> None:
    (tmp_path / "rows").write_bytes(b'{"text": "x"}\n' + line + b"\n")
    with pytest.raises(DataError, match=f"rows:2: .*{what}"):
        list(read_documents(tmp_path / "rows"))


def test_a_file_whose_making_failed_is_not_taken_for_whole(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), DocumentWriter(tmp_path / "rows") as writer:
        writer.write({"text": "some text " * 100_000})
        raise RuntimeError
    with pytest.raises(DataError):
        list(read_documents(tmp_path / "rows")) or pytest.fail("read as empty")


def test_a_number_that_json_has_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"JSON"):
        write_documents(tmp_path / "rows", [{"rating": float("nan")}])
