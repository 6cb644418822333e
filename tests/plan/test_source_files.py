"""smelt.plan.source_files: a source file is read once, and again exactly when it may have changed."""

import json
import os
from pathlib import Path

import pytest

from small_plan import write
from smelt.plan import source_files
from smelt.plan.errors import DataError
from smelt.plan.manifest import sha256_text
from smelt.plan.source_files import MEMORY, MOST_NAMED, file_digests


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".snakemake").mkdir()
    return tmp_path


def settings(*paths: str) -> dict:
    return {"sources": [{"kind": "file", "path": path} for path in paths] + [{"kind": "url", "url": "https://a/b"}]}


def counted(monkeypatch) -> list[str]:
    """Names of the files whose content is read from now on."""
    read: list[str] = []
    whole = source_files.sha256_file
    monkeypatch.setattr(source_files, "sha256_file", lambda path: (read.append(path.name), whole(path))[1])
    return read


def test_the_digest_is_the_sha256_of_the_content(folder):
    write(folder, "hello", "a.txt")
    assert file_digests(settings("a.txt")) == {"a.txt: a.txt": sha256_text("hello")}
    assert file_digests({"sources": []}) == file_digests({}) == {}


def test_a_file_is_read_once_and_again_after_a_change(folder, monkeypatch):
    write(folder, "one", "a.txt")
    write(folder, "two", "b.txt")
    read = counted(monkeypatch)
    for _ in range(3):
        file_digests(settings("a.txt", "b.txt"))
    assert read == ["a.txt", "b.txt"]
    write(folder, "ONE", "a.txt")
    os.utime(folder / "a.txt", ns=(1, 1))
    assert file_digests(settings("a.txt"))["a.txt: a.txt"] == sha256_text("ONE")
    assert read == ["a.txt", "b.txt", "a.txt"]


def test_many_files_are_remembered_in_one_write(folder, monkeypatch):
    for number in range(30):
        write(folder / "texts", str(number), f"{number}.txt")
    written = []
    whole = source_files.write_atomically
    monkeypatch.setattr(source_files, "write_atomically", lambda *a, **k: (written.append(a[0]), whole(*a, **k)))
    file_digests(settings("texts"))
    assert written == [MEMORY]
    assert len(json.loads(MEMORY.read_text())) == 30


def test_a_thousand_files_make_a_short_spec_that_still_follows_each(folder):
    for number in range(MOST_NAMED + 1):
        write(folder / "texts", str(number), f"{number}.txt")
    before = file_digests(settings("texts"))
    assert list(before) == [f"texts: {MOST_NAMED + 1} files"]
    write(folder / "texts", "other", "7.txt")
    assert list(file_digests(settings("texts"))) == list(before)
    assert file_digests(settings("texts")) != before


@pytest.mark.parametrize("broken", ["", "{", "[]", '{"x": 3}'])
def test_a_broken_memory_only_costs_a_second_reading(folder, broken):
    write(folder, "hello", "a.txt")
    MEMORY.write_text(broken.replace("x", str(folder / "a.txt")))
    assert file_digests(settings("a.txt")) == {"a.txt: a.txt": sha256_text("hello")}


def test_without_snakemakes_folder_nothing_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "hello", "a.txt")
    file_digests(settings("a.txt"))
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_a_name_that_is_not_unicode_is_told(folder):
    (folder / "texts").mkdir()
    Path(os.fsdecode(os.fsencode(folder / "texts") + b"/caf\xe9.txt")).write_text("x")
    with pytest.raises(DataError, match=r"source path 'texts': the name b'caf\\xe9.txt' is not UTF-8; rename the file"):
        file_digests(settings("texts"))


@pytest.mark.parametrize("path", ["absent.txt", "absent/*.txt", "x" * 300])
def test_a_file_that_is_not_there_is_told(folder, path):
    with pytest.raises(DataError, match="source path '"):
        file_digests(settings(path))
