"""smelt.plan.manifest: one form to hash, whole files or none, and sizes that are checked."""

import json
import os
from pathlib import Path

import pytest

from smelt.plan.errors import DataError
from smelt.plan.manifest import (
    FORMAT,
    Manifest,
    canonical,
    listing,
    sha256_file,
    sha256_text,
    to_json,
    write_atomically,
)


def test_the_canonical_form_depends_on_content_alone():
    assert canonical({"b": 1, "a": [1.5, None, True, "ü"]}) == '{"a":[1.5,null,true,"ü"],"b":1}'
    assert canonical({"a": 1, "b": 2}) == canonical({"b": 2, "a": 1})
    assert canonical(1) != canonical(1.0) != canonical(True)


@pytest.mark.parametrize("value", [{1, 2}, Path("x"), object(), b"bytes", 1j])
def test_what_has_no_stable_form_is_refused(value):
    with pytest.raises(TypeError):
        canonical({"a": value})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_json_lacks_are_refused(value):
    with pytest.raises(ValueError, match="JSON"):
        canonical([value])
    with pytest.raises(ValueError, match="JSON"):
        to_json([value])


def test_sha256_is_that_of_the_standard(tmp_path):
    # FIPS 180-2, appendix B.1
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    (tmp_path / "abc").write_text("abc")
    assert sha256_text("abc") == sha256_file(tmp_path / "abc") == expected


def test_a_failed_write_leaves_the_old_file_and_nothing_beside_it(tmp_path):
    path = tmp_path / "manifest.json"
    write_atomically(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "half a pair: \ud800")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_rename_leaves_nothing_beside(tmp_path):
    target = tmp_path / "taken"
    target.mkdir()
    with pytest.raises(OSError, match="taken"):
        write_atomically(target, "x")
    assert list(tmp_path.iterdir()) == [target]


def test_a_written_file_can_be_read_by_the_group(tmp_path):
    write_atomically(tmp_path / "deep" / "file", b"\x00")
    assert (tmp_path / "deep" / "file").stat().st_mode & 0o777 == 0o644


def manifest(folder: Path, **changes) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "a.txt").write_text("hello")
    content = {"format": FORMAT, "stage": "corpus", "node": "n", "settings": {}, "upstream": {}, "facts": {}}
    content["files"] = listing(folder, ["a.txt"])
    path = folder / "manifest.json"
    path.write_text(to_json({**content, **changes}))
    return path


def test_a_listed_file_is_given_if_its_size_is_right(tmp_path):
    found = Manifest.read(manifest(tmp_path))
    assert found.file("a.txt") == tmp_path / "a.txt"
    assert found.problems(content=True) == []


def test_a_file_cut_off_missing_or_not_listed_is_refused_by_name(tmp_path):
    found = Manifest.read(manifest(tmp_path))
    with pytest.raises(DataError, match=r"lists no file 'b.txt'; it lists a.txt"):
        found.file("b.txt")
    (tmp_path / "a.txt").write_text("hell")
    with pytest.raises(DataError, match=r"a.txt: 4 bytes, manifest.json says 5"):
        found.file("a.txt")
    (tmp_path / "a.txt").unlink()
    with pytest.raises(DataError, match=r"a.txt: missing"):
        found.file("a.txt")


def test_a_flipped_byte_shows_only_when_the_content_is_read(tmp_path):
    found = Manifest.read(manifest(tmp_path))
    (tmp_path / "a.txt").write_text("hellO")
    assert found.problems() == []
    assert "content differs" in found.problems(content=True)[0]
    assert found.file("a.txt") == tmp_path / "a.txt"
    with pytest.raises(
        DataError, match=r"a\.txt: content differs from the sha256 in manifest\.json; delete .*manifest"
    ):
        found.file("a.txt", content=True)


def test_every_listed_file_of_a_folder_is_checked(tmp_path):
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf" / "b.txt").write_text("b")
    found = Manifest.read(manifest(tmp_path, files=listing(tmp_path, ["hf/b.txt"])))
    assert found.folder("hf", content=True) == tmp_path / "hf"
    (tmp_path / "hf" / "b.txt").write_text("c")
    assert found.folder("hf") == tmp_path / "hf"
    with pytest.raises(DataError, match=r"hf/b\.txt: content differs"):
        found.folder("hf", content=True)


def test_what_a_manifest_lists_is_on_the_disk_before_the_manifest_is(tmp_path, monkeypatch):
    synced = []
    true = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (synced.append(os.fstat(file).st_ino), true(file)))
    (tmp_path / "deep").mkdir()
    for name in ("a", "deep/b"):
        (tmp_path / name).write_text(name)
    listing(tmp_path, ["a", "deep/b"])
    expected = {path.stat().st_ino for path in (tmp_path, tmp_path / "a", tmp_path / "deep", tmp_path / "deep" / "b")}
    assert set(synced) == expected
    assert len(synced) == len(expected)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'{"format": 1',
        b"[]",
        b"null",
        b"\xff\xfe",
        json.dumps({"format": FORMAT + 1}).encode(),
        json.dumps({"format": FORMAT}).encode(),
        json.dumps({"format": FORMAT, "stage": "s", "node": "n", "settings": {}, "upstream": {}, "files": [], "facts": {}}).encode(),
        json.dumps({"format": FORMAT, "stage": "s", "node": "n", "settings": {}, "upstream": {}, "files": {"a": {}}, "facts": {}}).encode(),
    ],
)  # fmt: skip
def test_what_is_no_manifest_is_told_with_the_way_out(tmp_path, content):
    path = tmp_path / "manifest.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"manifest.json: not a manifest .*delete it and run snakemake again"):
        Manifest.read(path)


def test_a_missing_manifest_says_what_to_run(tmp_path):
    with pytest.raises(DataError, match="run snakemake to make this node first"):
        Manifest.read(tmp_path / "manifest.json")
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match="can't be read"):
        Manifest.read(tmp_path / "folder")
