"""Settings of sources: what can't work is said before anything is fetched; file names may hold anything."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from smelt.data.formats import READERS
from smelt.plan.complaint import complaint
from smelt.plan.errors import DataError
from smelt.plan.settings.corpus import Corpus
from smelt.plan.settings.source import FileSource, Source
from smelt.plan.settings.task import Classification, Dialogue, Task
from smelt.task import conversations

URL = {"kind": "url", "url": "https://example.org/x", "sha256": "0" * 64}
PACKAGE = {"kind": "package", "release": "a-1.0.tar.gz", "sha256": "0" * 64}
TABLE = {
    "kind": "classification",
    "sources": [URL],
    "format": "table",
    "columns": ["id", "text", "label"],
    "label": {"by": "column", "column": "label"},
}


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ({**URL, "url": "ftp://example.org/x"}, "no http or https address"),
        ({**URL, "mirrors": ["https://a", "example.org"]}, "no http or https address"),
        ({**URL, "url": "https://ada:pa55@example.org/x"}, r"a secret \(a login\).*~/\.netrc"),
        ({**URL, "url": "https://pa55@example.org/x"}, r"a secret \(a login\)"),
        ({**URL, "url": "https://example.org/x?a=1&Token=pa55"}, r"a secret \('Token' in its query\).*~/\.netrc"),
        ({**URL, "mirrors": ["https://a", "https://b?X-Amz-Signature=pa55"]}, "a secret .'X-Amz-Signature'"),
        ({**URL, "url": "https://example.org/x?%74oken=pa55"}, "a secret .'token'"),
        ({**URL, "url": "https://example.org/x?api_key=pa55;b=2"}, "a secret .'api_key'"),
        ({"kind": "url", "url": "https://example.org/x"}, "no checksum"),
        ({**URL, "sha256": "abc"}, "pattern"),
        ({**URL, "sha256": "A" * 64}, "pattern"),
        ({**PACKAGE, "release": "a-1.0.exe"}, "no name of a release file"),
        ({**PACKAGE, "release": "../a-1.0.tar.gz"}, "no name of a release file"),
        ({**PACKAGE, "member": []}, "is empty"),
        ({**PACKAGE, "member": ["a.zip", ""]}, "is empty"),
        ({**PACKAGE, "encoding": "utf-16"}, "does not keep ASCII"),
        ({**PACKAGE, "encoding": "klingon"}, "no encoding of text"),
        ({**PACKAGE, "encoding": "rot13"}, "no encoding of text|does not keep"),
        ({"kind": "file", "path": " "}, "names no file"),
        ({"kind": "ftp", "path": "x"}, "kind"),
    ],
)
def test_a_source_that_can_not_work_is_refused(source: dict[str, Any], what: str) -> None:
    with pytest.raises(ValidationError, match=what):
        TypeAdapter(Source).validate_python(source)


@pytest.mark.parametrize("query", ["?download=1&id=7", "?tokens=5", "?file=a@b.txt", "?format=key&x=token", "?key="])
def test_an_ordinary_query_is_no_secret(query: str) -> None:
    assert TypeAdapter(Source).validate_python({**URL, "url": f"https://example.org/x{query}"}).url.endswith(query)


@pytest.mark.parametrize(
    "url",
    ["https://ada:pa55@example.org/x", "https://example.org/x?token=pa55", "ftp://ada:pa55@example.org/x?sig=pa55"],
)
def test_the_complaint_about_a_secret_does_not_tell_it(url: str) -> None:
    data = {**URL, "url": url}
    with pytest.raises(ValidationError) as raised:
        TypeAdapter(Source).validate_python(data)
    (error,) = raised.value.errors()
    _, text = complaint(Source, data, error)
    assert "example.org/x" in text
    assert "pa55" not in text


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"text": "body"}, "no column is named 'body'; the columns are id, text, label"),
        ({"label": {"by": "column", "column": "lable"}}, "no column is named 'lable'"),
        ({"columns": ["a", "a"]}, "names a column twice"),
        ({"format": "lines"}, "has no column 'label'"),
        ({"splits": {"valid": 0.5, "test": 0.5}}, "nothing is left to train on"),
        ({"cleaning": {"min_characters": 9, "max_characters": 3}}, "no text fits"),
        ({"label": {"by": "file", "names": {}}}, "names"),
    ],
)
def test_a_task_that_can_not_work_is_refused(change: dict[str, Any], what: str) -> None:
    with pytest.raises(ValidationError, match=what):
        TypeAdapter(Task).validate_python(TABLE | change)


def test_every_format_of_the_settings_has_a_reader_and_the_other_way_round() -> None:
    def formats(kind: Any) -> set[str]:
        return set(kind.model_fields["format"].annotation.__args__)

    assert formats(Corpus) | formats(Classification) == set(READERS)
    assert formats(Dialogue) == set(conversations.READERS)


ODD = [
    "a b.txt",
    "it's.txt",
    'say "x".txt',
    "$HOME.txt",
    "a;b.txt",
    "[x]*?.txt",
    "中文.txt",
    "-n",
    "a\nb.txt",
    "%41.txt",
]


@pytest.mark.parametrize("name", ODD)
def test_a_file_is_found_whatever_characters_its_name_has(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("x")
    (tmp_path / "x.txt").write_text("y")
    assert FileSource(kind="file", path=name).files(tmp_path) == [(name, tmp_path / name)]


def test_folders_and_globs_give_sorted_names_relative_to_what_was_named(tmp_path: Path) -> None:
    for name in ("d/2.txt", "d/1.txt", "d/sub/3.txt", "d/x.md", "e [1]/4.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")

    def names(path: str, **more: Any) -> list[str]:
        return [name for name, _ in FileSource(kind="file", path=path, **more).files(tmp_path)]

    assert names("d") == ["1.txt", "2.txt", "sub/3.txt", "x.md"]
    assert names("d", exclude=["*.md", "sub/*"]) == ["1.txt", "2.txt"]
    assert names("d/**/*.txt") == ["1.txt", "2.txt", "sub/3.txt"]
    assert names("*/1.txt") == ["d/1.txt"]
    assert names("e [1]") == ["4.txt"]
    assert names("../" + tmp_path.name + "/d/*.md") == ["x.md"]


def test_a_file_that_is_not_there_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "reviews.tsv").write_text("x")
    with pytest.raises(DataError, match=r"'review.tsv': no such file \(did you mean 'reviews.tsv'\?\)"):
        FileSource(kind="file", path="review.tsv").files(tmp_path)
    with pytest.raises(DataError, match=r"there is no folder"):
        FileSource(kind="file", path="data/review.tsv").files(tmp_path)


def test_one_checksum_for_several_files_is_refused(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text("x")
    with pytest.raises(DataError, match=r"2 files, so one sha256 can't be right"):
        FileSource(kind="file", path="*", sha256="0" * 64).files(tmp_path)
