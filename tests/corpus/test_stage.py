"""The stage corpus as the workflow runs it: on files, archives and addresses, good and bad."""

import bz2
import gzip
import hashlib
import io
import json
import os
import random
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from smelt.data.documents import read_documents
from smelt.plan.errors import DataError, StorageError
from smelt.plan.job import execute
from smelt.plan.manifest import Manifest, canonical
from smelt.plan.settings.corpus import Corpus
from web_server import Site, gives, refuses

SPLITS = ("train", "valid", "test")
THIRDS = {"valid": 0.25, "test": 0.25}


def sentences(count: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    words = [f"word{number}" for number in range(500)]
    return [" ".join(rng.choice(words) for _ in range(12)) for _ in range(count)]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the workflow runs, with a cache of its own."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SMELT_CACHE", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def site() -> Iterator[Site]:
    served = Site()
    yield served
    served.close()


def block(path: str = "data.txt", format: str = "lines", **more: Any) -> dict[str, Any]:
    source = {"kind": "file", "path": path}
    given = {"sources": [source], "format": format, "splits": THIRDS} | more
    return Corpus.model_validate(given).model_dump(mode="json")


def run(results: Any, settings: dict[str, Any], threads: int = 1) -> Manifest:
    out = results.path("corpus", "c", settings)
    execute("corpus", canonical(results.spec("corpus", settings, {})), out, threads=threads)
    return Manifest.read(out)


def documents(manifest: Manifest) -> dict[str, list[dict[str, Any]]]:
    return {split: list(read_documents(manifest.file(f"{split}.jsonl.zst"))) for split in SPLITS}


def test_documents_are_cleaned_once_each_and_split_and_all_are_counted(results: Any, here: Path) -> None:
    texts = sentences(200)
    lines = [*texts, texts[3].upper(), "  " + texts[5] + " ", "", "short", "bell\x07 " + "rings " * 9]
    (here / "data.txt").write_text("\n".join(lines) + "\n")
    manifest = run(
        results, block(cleaning={"min_characters": 10, "control_characters": "remove", "whitespace": "trim"})
    )
    kept = documents(manifest)
    texts_kept = [row["text"] for rows in kept.values() for row in rows]
    assert sorted(texts_kept) == sorted([*texts, "bell " + ("rings " * 9).strip()])
    assert manifest.facts["read"] == len(lines)
    assert manifest.facts["dropped"] == {"empty": 1, "exact copy": 2, "shorter than min_characters=10": 1}
    for split in SPLITS:
        assert manifest.facts["documents"][split] == len(kept[split])
        assert manifest.facts["bytes"][split] == sum(len(row["text"].encode()) for row in kept[split])
        assert manifest.facts["words"][split] == sum(len(row["text"].split()) for row in kept[split])
    card = json.loads(manifest.file("card.json").read_text())
    assert card["altered"] == {"control characters removed": 1, "texts with white space altered": 2}
    assert card["dropped"]["exact copy"]["examples"] == ["data.txt:201", "data.txt:202"]
    assert card["sources"][0]["read"] == [
        {
            "name": "data.txt",
            "bytes": (here / "data.txt").stat().st_size,
            "sha256": hashlib.sha256((here / "data.txt").read_bytes()).hexdigest(),
        }
    ]
    left = {path.name for path in manifest.directory.iterdir()} - {".lock", "provenance.json", "manifest.json"}
    assert left == set(manifest.files)


def test_the_same_data_gives_the_same_bytes_with_any_number_of_threads(results: Any, here: Path) -> None:
    (here / "data.txt").write_text("\n".join(sentences(3000)))
    settings = block()
    made = []
    for threads in (1, 2, 1):
        manifest = run(results, settings, threads)
        made.append([manifest.path.read_bytes(), *(manifest.file(name).read_bytes() for name in manifest.files)])
    assert made[0] == made[1] == made[2]


def test_chinese_text_is_kept_and_its_near_copies_stay_together(results: Any, here: Path) -> None:
    rng = random.Random(1)
    signs = [chr(0x4E00 + number) for number in range(3000)]
    texts = ["".join(rng.choice(signs) for _ in range(60)) + "。" for _ in range(100)]
    copies = [text[:30] + "改" + text[31:] for text in texts]
    (here / "data.txt").write_text("\n".join(texts + copies))
    manifest = run(results, block(deduplication={"shingle": 2, "threshold": 0.7}))
    places = {row["text"]: split for split, rows in documents(manifest).items() for row in rows}
    assert len(places) == 200
    assert all(places[text] == places[copy] for text, copy in zip(texts, copies, strict=True))
    assert manifest.facts["near copies"] == {"groups": 100, "documents": 200}


@pytest.mark.parametrize("name", ["a b.txt", 'it\'s "x".txt', "$HOME;rm.txt", "中文 资料.txt", "[1]*.txt"])
def test_names_with_any_characters_work_from_the_file_to_the_card(results: Any, here: Path, name: str) -> None:
    (here / name).write_text("\n".join(sentences(60)))
    (here / "1.txt").write_text("another file")
    manifest = run(results, block(name))
    assert manifest.facts["read"] == 60
    assert json.loads(manifest.file("card.json").read_text())["sources"][0]["read"][0]["name"] == name


def test_an_absolute_path_does_not_reach_the_documents(results: Any, here: Path) -> None:
    (here / "data.txt").write_text("\n".join(sentences(60)))
    manifest = run(results, block(str(here / "data.txt")))
    assert all(row["origin"].startswith("data.txt:") for rows in documents(manifest).values() for row in rows)
    assert str(here) not in manifest.file("card.json").read_text()


def test_a_glob_of_json_lines_in_folders(results: Any, here: Path) -> None:
    for number in range(4):
        folder = here / "part one" / str(number)
        folder.mkdir(parents=True)
        rows = [json.dumps({"body": text, "who": "someone"}, ensure_ascii=False) for text in sentences(20, number)]
        (folder / "x.jsonl.gz").write_bytes(gzip.compress("\n".join(rows).encode()))
    manifest = run(results, block("part one/**/*.gz", "jsonl", text_key="body"))
    kept = [row for rows in documents(manifest).values() for row in rows]
    assert len(kept) == 80
    assert set(kept[0]) == {"id", "text", "origin"}
    assert {row["origin"].split(":")[0] for row in kept} == {f"{number}/x.jsonl.gz" for number in range(4)}


def test_max_documents_stops_reading(results: Any, here: Path) -> None:
    (here / "data.txt").write_text("\n".join(sentences(500)))
    manifest = run(results, block(max_documents=50))
    assert manifest.facts["read"] == 50
    assert sum(manifest.facts["documents"].values()) == 50


def test_a_dump_is_fetched_through_a_broken_line_and_read(results: Any, here: Path, site: Site) -> None:
    pages = "".join(
        f"<page><title>T{number}</title><ns>0</ns><id>{number}</id><revision><id>1</id><contributor><username>Hidden Name</username></contributor>"
        f"<text>'''{text}''' [[File:x.jpg]]</text></revision></page>"
        for number, text in enumerate(sentences(60), 1)
    )
    dump = bz2.compress(f"<mediawiki><siteinfo></siteinfo>{pages}</mediawiki>".encode())
    site.pages["/dump.xml.bz2"] = [gives(dump, after=len(dump) // 2), refuses(503, Retry_After="0"), gives(dump)]
    source = {
        "kind": "url",
        "url": site.url("/dump.xml.bz2?day=3"),
        "sha1": hashlib.sha1(dump).hexdigest(),
        "size": len(dump),
    }
    settings = block(format="mediawiki", sources=[source])
    manifest = run(results, settings)
    kept = [row for rows in documents(manifest).values() for row in rows]
    assert sorted(row["text"] for row in kept) == sorted(sentences(60))
    assert {row["title"] for row in kept} == {f"T{number}" for number in range(1, 61)}
    everything = b"".join(manifest.file(name).read_bytes() for name in manifest.files) + json.dumps(kept).encode()
    assert b"Hidden Name" not in everything
    requests = len(site.requests)
    run(results, settings)
    assert len(site.requests) == requests


def zip_with(name: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, "\n".join(sentences(50)))
    return buffer.getvalue()


BAD: dict[str, tuple[bytes, dict[str, Any], str]] = {
    "an empty file": (b"", {}, "no documents are left: 0 were read"),
    "only empty lines": (b"\n\n \n", {}, "no documents are left: 3 were read, 3 empty"),
    "one document": (b"the only line\n", {}, "came out empty.*1 groups of documents"),
    "one group of near copies": (
        b"\n".join(b"the same line over and over again %d" % number for number in range(50)),
        {"deduplication": {"shingle": 1, "threshold": 0.5}},
        "came out empty.*1 groups of documents",
    ),
    "a byte that is not UTF-8": (b"good\n\xff\xfe bad\n", {}, r"data.txt:2: byte 0xff at offset 5 is not UTF-8"),
    "a gz cut off": (
        gzip.compress(random.Random(1).randbytes(5000).hex().encode())[:3000],
        {},
        "data.txt: cut off: the gz data end",
    ),
    "a bz2 cut off": (
        bz2.compress(random.Random(1).randbytes(5000).hex().encode())[:3000],
        {},
        "data.txt: cut off: the bz2 data end",
    ),
    "a zip without member": (zip_with("a.txt"), {}, "is a zip archive; name the file to read in `member`"),
    "a wrong member": (zip_with("a.txt"), {"member": "b.txt"}, "has no member 'b.txt'; the nearest are 'a.txt'"),
    "a zip-slip": (zip_with("../a.txt"), {"member": "*"}, r"holds '\.\./a.txt', a name that leads out"),
    "a wrong checksum": (b"text\n", {"sha256": "0" * 64}, "has sha256 .*the settings say 0000"),
    "no JSON": (b"text\n", {"format": "jsonl"}, "data.txt:1: not JSON"),
    "no dump": (b"text\n", {"format": "mediawiki"}, "does not begin as a MediaWiki XML dump"),
    "a missing key": (b'{"body": "x"}\n', {"format": "jsonl"}, "data.txt:1: has no key 'text'; it has 'body'"),
    "a bomb": (gzip.compress(bytes(3_000_000)), {"max_unpacked_bytes": 1_000_000}, "max_unpacked_bytes=1,000,000"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_clear_error_and_leaves_what_is_there(results: Any, here: Path, case: str) -> None:
    (here / "good.txt").write_text("\n".join(sentences(60)))
    good = run(results, block("good.txt"))
    before = {path: path.read_bytes() for path in good.directory.rglob("*") if path.is_file()}
    data, change, message = BAD[case]
    (here / "data.txt").write_bytes(data)
    of_source = {key: change[key] for key in ("member", "sha256", "max_unpacked_bytes") if key in change}
    settings = block(
        sources=[{"kind": "file", "path": "data.txt"} | of_source],
        **{key: change[key] for key in change if key not in of_source},
    )
    with pytest.raises(DataError, match=message) as raised:
        run(results, settings)
    assert "\n" not in str(raised.value)
    assert not results.path("corpus", "c", settings).exists()
    assert {path: path.read_bytes() for path in before} == before


def test_a_missing_file_and_a_404_are_told(results: Any, here: Path, site: Site) -> None:
    (here / "data.txt").write_text("x")
    with pytest.raises(DataError, match=r"'date.txt': no such file \(did you mean 'data.txt'\?\)"):
        run(results, block("date.txt"))
    source = {"kind": "url", "url": site.url("/gone.txt"), "sha256": "0" * 64}
    with pytest.raises(DataError, match=r"/gone.txt: can't be fetched from its address: .*404"):
        run(results, block(sources=[source]))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False) if os.geteuid() == 0 else None
    if mounted is None or mounted.returncode:
        pytest.skip(f"a small file system can't be mounted here: {mounted.stderr.strip() if mounted else 'not root'}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_one_clear_error_and_alters_nothing_made_before(
    results_at: Callable[[Path], Any], small_disk: Path, here: Path
) -> None:
    (here / "good.txt").write_text("\n".join(sentences(60)))
    (here / "large.txt").write_text("\n".join(random.Random(number).randbytes(300).hex() for number in range(5000)))
    results = results_at(small_disk / "results")
    good = run(results, block("good.txt"))
    before = {path: path.read_bytes() for path in good.directory.rglob("*") if path.is_file()}
    with pytest.raises(StorageError, match=r"No space left on device; make room there"):
        run(results, block("large.txt"))
    assert {path: path.read_bytes() for path in before} == before
    assert not results.path("corpus", "c", block("large.txt")).exists()


def test_a_full_cache_is_one_clear_error(
    results: Any, small_disk: Path, here: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = random.Random(1).randbytes(2_000_000)
    site.pages["/file"] = [gives(data)]
    monkeypatch.setenv("SMELT_CACHE", str(small_disk))
    source = {"kind": "url", "url": site.url("/file"), "sha256": hashlib.sha256(data).hexdigest()}
    with pytest.raises(StorageError, match=r"No space left on device; make room there"):
        run(results, block(sources=[source]))


def test_the_command_prints_one_line_and_no_traceback(results: Any, here: Path) -> None:
    (here / "data.txt").write_bytes(b"\xff")
    settings = block()
    command = [sys.executable, "-m", "smelt", "corpus", "--spec", canonical(results.spec("corpus", settings, {}))]
    out = results.path("corpus", "c", settings)
    done = subprocess.run(
        [*command, "--out", str(out), "--log", str(out.parent / "log.txt")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "data.txt:1: byte 0xff" in done.stderr
    assert "Traceback" not in done.stderr
    assert not out.exists()


def test_real_english_and_chinese_text(results: Any, here: Path, shared_data: Path) -> None:
    shakespeare = block(str(shared_data / "tinyshakespeare" / "*.txt"), "paragraphs", cleaning={"min_characters": 20})
    manifest = run(results, shakespeare)
    # The file has 7,222 speeches (blocks between empty lines); what is not kept is counted.
    assert manifest.facts["read"] == 7222
    assert sum(manifest.facts["documents"].values()) + sum(manifest.facts["dropped"].values()) == 7222
