"""Shards as a stage: every document kept, ended and counted; the same bytes for any thread count, folder and shard size."""

import json
import random
import shutil
import subprocess
import sys

import numpy as np
import pytest
import sentencepiece
from pydantic import ValidationError

import texts
from smelt.data.documents import write_documents
from smelt.data.tokens import TokenStream
from smelt.data.words import count_words
from smelt.plan.errors import DataError
from smelt.plan.job import execute
from smelt.plan.manifest import Manifest, canonical
from smelt.plan.settings.shards import Shards
from smelt.plan.settings.tokenizer import Tokenizer

SPLITS = {
    "train": [*texts.mixed(), "", "\n", " x "],
    "valid": ["", *texts.mixed(5, 4)],
    "test": [*texts.mixed(6, 3), *texts.hard(random.Random(4), 60)],
}


def upstream(results, label="made", **changed):
    splits = {**SPLITS, **changed}
    corpus = texts.corpus(results.root, splits["train"], splits["valid"], splits["test"], label=label)
    return {"corpus": corpus, "tokenizer": results.run("tokenizer", "en", Tokenizer(vocab_size=600), corpus=corpus)}


@pytest.fixture(scope="module")
def given(session_results):
    return upstream(session_results, label="shards-stage")


@pytest.fixture(scope="module")
def node(session_results, given):
    return session_results.run("shards", "made", Shards(max_shard_bytes=4096), **given)


def test_every_document_is_its_tokens_and_an_end(node, given):
    """Against SentencePiece itself, one call a document."""
    processor = sentencepiece.SentencePieceProcessor(model_file=str(given["tokenizer"].file("tokenizer.model")))
    for split, documents in SPLITS.items():
        stream = TokenStream(node, split, tokenizer=given["tokenizer"].id, verify=True)
        found = np.split(stream.read(0, len(stream)), stream.document_starts()[1:])
        assert len(found) == len(documents)
        for text, ids in zip(documents, found, strict=True):
            assert ids[-1] == 2
            assert "\u2581" in text or ids[:-1].tolist() == processor.encode(text)
            assert "\u2581" in text or processor.decode(ids.tolist()) == text


def test_the_facts_count_what_is_there(node, given):
    assert {name: node.facts[name] for name in ("dtype", "eos", "vocab_size", "tokenizer")} == {
        "dtype": "<u2", "eos": 2, "vocab_size": 600, "tokenizer": given["tokenizer"].id,
    }  # fmt: skip
    for split, documents in SPLITS.items():
        counts = node.facts["splits"][split]
        assert counts["documents"] == len(documents)
        assert counts["bytes"] == sum(len(text.encode()) for text in documents)
        assert counts["words"] == sum(map(count_words, documents))
        assert counts["tokens"] == len(TokenStream(node, split)) == sum(shard["tokens"] for shard in counts["shards"])
        assert counts["documents"] == sum(shard["documents"] for shard in counts["shards"])
    listed = [shard["file"] for counts in node.facts["splits"].values() for shard in counts["shards"]]
    assert sorted(node.files) == sorted(listed)
    assert len(node.facts["splits"]["train"]["shards"]) > 3


def test_two_folders_and_other_threads_give_the_same_bytes(tmp_path, results):
    made = []
    for folder, threads in (("one", 1), ("another folder", 3)):
        results.root = tmp_path / folder / "results"
        nodes = upstream(results)
        settings = Shards(max_shard_bytes=4096).model_dump()
        out = results.path("shards", "made", settings, **nodes)
        execute("shards", canonical(results.spec("shards", settings, nodes)), out, threads=threads)
        made.append(
            {
                path.name: path.read_bytes()
                for path in out.parent.iterdir()
                if path.suffix in (".lmdb", ".json") and path.name != "provenance.json"
            }
        )
    assert made[0] == made[1]
    assert not any(str(tmp_path).encode() in data for data in made[0].values())


def test_the_size_of_shards_does_not_change_the_stream(session_results, given, node):
    one = session_results.run("shards", "made", Shards(), **given)
    for split in SPLITS:
        large, small = TokenStream(one, split), TokenStream(node, split)
        assert large.shards == 1
        assert np.array_equal(large.read(0, len(large)), small.read(0, len(small)))
        assert np.array_equal(large.document_starts(), small.document_starts())


def test_another_tokenizer_makes_other_shards_and_the_old_ones_are_refused(session_results, given, node):
    other = session_results.run("tokenizer", "en", Tokenizer(vocab_size=500), corpus=given["corpus"])
    again = session_results.run("shards", "made", Shards(max_shard_bytes=4096), corpus=given["corpus"], tokenizer=other)
    assert again.id != node.id
    with pytest.raises(DataError, match=f"made with tokenizer {given['tokenizer'].id}, not with {other.id}"):
        TokenStream(node, "train", tokenizer=other.id)


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_a_split_without_documents_is_one_clear_error(results, split):
    nodes = upstream(results)
    write_documents(nodes["corpus"].directory / f"{split}.jsonl.zst", [])
    manifest = json.loads(nodes["corpus"].path.read_text())
    manifest["files"][f"{split}.jsonl.zst"]["size"] = (nodes["corpus"].directory / f"{split}.jsonl.zst").stat().st_size
    manifest["facts"]["documents"][split] = 0
    nodes["corpus"].path.write_text(json.dumps(manifest))
    with pytest.raises(DataError, match=f"split '{split}' holds no document"):
        results.run("shards", "made", Shards(), **nodes)


def test_a_document_beyond_a_shard_names_the_document_and_the_setting(results):
    nodes = upstream(results, test=["short", "of the " * 2000])
    with pytest.raises(
        DataError, match=r"test: document 'test-1' has [\d,]+ tokens, a shard holds 512: raise max_shard_bytes"
    ):
        results.run("shards", "made", Shards(max_shard_bytes=1024), **nodes)
    assert not list((results.root / "shards").glob("*/manifest.json"))


def test_a_damaged_tokenizer_is_named(results):
    nodes = upstream(results)
    path = nodes["tokenizer"].directory / "tokenizer.model"
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(DataError, match=r"tokenizer\.model: not a SentencePiece model"):
        results.run("shards", "made", Shards(), **nodes)


def test_a_corpus_file_that_is_cut_off_is_refused(results):
    nodes = upstream(results)
    path = nodes["corpus"].directory / "valid.jsonl.zst"
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(DataError, match=r"valid\.jsonl\.zst: \d+ bytes, manifest\.json says"):
        results.run("shards", "made", Shards(), **nodes)


def test_what_an_earlier_attempt_left_is_cleared(session_results, given, node):
    (node.directory / ".train-00009.lmdb.partial").write_bytes(b"half")
    (node.directory / "train-00099.lmdb").write_bytes(b"of other settings")
    before = node.path.read_bytes()
    again = session_results.run("shards", "made", Shards(max_shard_bytes=4096), **given)
    assert again.path.read_bytes() == before
    assert sorted(path.name for path in node.directory.glob("*.lmdb*")) == sorted(node.files)
    assert not list(node.directory.glob(".*.partial"))


def test_results_that_were_moved_elsewhere_still_read(session_results, node, tmp_path):
    shutil.copytree(node.directory, tmp_path / "moved here")
    moved = Manifest.read(tmp_path / "moved here" / "manifest.json")
    TokenStream(moved, "train").verify()


def test_memory_does_not_grow_with_the_corpus(results):
    """In batches and shards that are small, so that a corpus that is not is soon made."""
    nodes = upstream(results)
    program = (
        "import sys, resource, itertools\n"
        "from pathlib import Path\n"
        "import smelt.data.encoder as encoder; from smelt.data.shard import ShardWriter\n"
        "from smelt.data.documents import read_documents; from smelt.plan.manifest import Manifest\n"
        "encoder.BATCH, corpus = 2**17, Path(sys.argv[2])\n"
        "rows = itertools.chain.from_iterable(read_documents(corpus) for _ in range(int(sys.argv[4])))\n"
        "loaded = encoder.Encoder.load(Manifest.read(Path(sys.argv[1])))\n"
        "with ShardWriter(Path(sys.argv[3]), 'train', loaded.dtype, 2**18, {}) as writer:\n"
        "    for _, ids in loaded.encode_documents(rows, 2): writer.add(ids)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    peaks = []
    for times in (16, 64):
        given = [nodes["tokenizer"].path, nodes["corpus"].file("train.jsonl.zst"), results.root, str(times)]
        ran = subprocess.run([sys.executable, "-c", program, *given], capture_output=True, text=True, check=True)
        peaks.append(int(ran.stdout))
    assert peaks[1] < 1.1 * peaks[0]


@pytest.mark.parametrize("size", [0, 1023, 512 * 2**20 + 1])
def test_shard_sizes_beyond_the_bounds_are_refused(size):
    with pytest.raises(ValidationError, match="max_shard_bytes"):
        Shards(max_shard_bytes=size)
