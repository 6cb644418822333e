"""The reader of shards: right tokens for every length and layout, and refusal of whatever is damaged, foreign or unfinished."""

import multiprocessing
import pickle
import shutil
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tiny
from smelt.data.shard import ShardWriter
from smelt.data.tokens import TokenStream
from smelt.plan.errors import DataError
from smelt.plan.manifest import Manifest

VOCABULARY = 5000


def shards(root, documents, max_bytes=1024, dtype="<u2", label="made", vocabulary=VOCABULARY):
    """A shards node of one split, and the stream that it must give."""
    directory = root / "shards" / f"{label}-0000000000"
    directory.mkdir(parents=True)
    with ShardWriter(directory, "train", np.dtype(dtype), max_bytes, {}) as writer:
        for ids in documents:
            writer.add(np.asarray(ids, dtype))
    stream = np.concatenate([np.asarray(ids, np.int64) for ids in documents])
    train = {"tokens": len(stream), "documents": len(documents), "bytes": 9, "words": 3, "shards": writer.records}
    facts = {
        "dtype": dtype,
        "eos": 2,
        "vocab_size": vocabulary,
        "tokenizer": "bpe-1234567890",
        "splits": {"train": train},
    }
    return tiny.node(root, "shards", label, facts), stream


def documents(count, longest=200, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, VOCABULARY, rng.integers(0, longest)) for _ in range(count)]


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Some twenty small shards."""
    return shards(tmp_path_factory.mktemp("many"), documents(120))


@pytest.mark.parametrize("dtype", ["<u2", "<u4"])
@pytest.mark.parametrize("max_bytes", [1024, 2**20])
@pytest.mark.parametrize("length", [1, 2, 7, 64, 333, 1200])
def test_sequences_are_the_stream_cut_into_rows(tmp_path, dtype, max_bytes, length):
    """1,200 tokens are more than two shards of 512: such sequences lie in several shards."""
    manifest, expected = shards(tmp_path, documents(60), max_bytes, dtype)
    sequences = TokenStream(manifest, "train").sequences(length)
    rows = expected[: len(expected) // length * length].reshape(-1, length)
    assert len(sequences) == len(rows)
    chosen = np.random.default_rng(1).permutation(len(rows))
    batch = sequences.__getitems__(chosen)
    assert batch.dtype == np.int64
    assert np.array_equal(batch, rows[chosen])
    assert np.array_equal(sequences[len(rows) - 1], rows[-1])
    assert np.array_equal(sequences.__getitems__([0, 0, len(rows) - 1]), rows[[0, 0, -1]])


@given(data=st.data())
@settings(max_examples=80, deadline=None)
def test_any_range_of_the_stream_is_read_as_it_was_written(many, data):
    manifest, expected = many
    start = data.draw(st.integers(0, len(expected)))
    stop = data.draw(st.integers(start, len(expected)))
    assert np.array_equal(TokenStream(manifest, "train").read(start, stop), expected[start:stop])


def test_documents_can_be_told_apart(tmp_path):
    made = [[1, 2], [], [2], *documents(90), []]
    manifest, expected = shards(tmp_path, made)
    stream = TokenStream(manifest, "train")
    starts = stream.document_starts()
    assert len(starts) == len(made) == stream.counts["documents"]
    for ids, part in zip(made, np.split(expected, starts[1:]), strict=True):
        assert np.array_equal(ids, part)


def test_an_empty_batch_is_empty(many):
    assert TokenStream(many[0], "train").sequences(16).__getitems__([]).shape == (0, 16)


@pytest.mark.parametrize("index", [-1, 10**9])
def test_an_index_beyond_the_sequences_is_an_error_and_not_another_sequence(many, index):
    with pytest.raises(IndexError):
        TokenStream(many[0], "train").sequences(16)[index]


def test_fewer_tokens_than_one_sequence_are_refused_with_the_numbers(many):
    with pytest.raises(
        DataError, match=r"split 'train' holds [\d,]+ tokens, fewer than one sequence of 1,000,000: shorten"
    ):
        TokenStream(many[0], "train").sequences(10**6)


def test_a_split_that_is_not_there_is_named_with_those_that_are(many):
    with pytest.raises(DataError, match="no split 'valid'; there are train"):
        TokenStream(many[0], "valid")


def test_shards_of_another_tokenizer_are_refused(many):
    TokenStream(many[0], "train", tokenizer="bpe-1234567890")
    with pytest.raises(DataError, match="made with tokenizer bpe-1234567890, not with bpe-ffffffffff"):
        TokenStream(many[0], "train", tokenizer="bpe-ffffffffff")


def copied(many, tmp_path):
    shutil.copytree(many[0].directory, tmp_path / "copy")
    return Manifest.read(tmp_path / "copy" / "manifest.json")


@pytest.mark.parametrize("value", ["tokens", "documents"])
def test_a_flipped_byte_is_refused_and_the_shard_named(many, tmp_path, value):
    manifest = copied(many, tmp_path)
    record = manifest.facts["splits"]["train"]["shards"][5]
    path = manifest.directory / record["file"]
    content = bytearray(path.read_bytes())
    place = record["offset"] if value == "tokens" else record["documents_offset"]
    content[place + record[value] - 1] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"train-00005\.lmdb: content differs from the checksum"):
        TokenStream(manifest, "train").verify()
    checked = TokenStream(manifest, "train", verify=True)
    checked.shard(4)
    with pytest.raises(DataError, match=r"train-00005\.lmdb"):
        checked.shard(5)


def test_an_undamaged_node_verifies(many):
    TokenStream(many[0], "train").verify()


def test_ids_beyond_the_vocabulary_are_refused(tmp_path):
    manifest, _ = shards(tmp_path, [[1, 4999, 3]], vocabulary=4999)
    with pytest.raises(DataError, match=r"train-00000\.lmdb: holds id 4999, the vocabulary ends at 4998"):
        TokenStream(manifest, "train").verify()


@pytest.mark.parametrize("size", [0, 100, 4096, -1])
def test_a_shard_that_is_cut_off_is_refused_before_anything_is_mapped(many, tmp_path, size):
    manifest = copied(many, tmp_path)
    path = manifest.directory / "train-00002.lmdb"
    with path.open("r+b") as file:
        file.truncate(size if size >= 0 else path.stat().st_size + size)
    with pytest.raises(DataError, match=r"train-00002\.lmdb: \d+ bytes, manifest\.json says"):
        TokenStream(manifest, "train")


def test_a_file_of_the_right_size_that_is_no_shard_is_refused(many, tmp_path):
    manifest = copied(many, tmp_path)
    path = manifest.directory / "train-00001.lmdb"
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(DataError, match=r"train-00001\.lmdb: not an LMDB file of format 0\.9"):
        TokenStream(manifest, "train")


def test_a_missing_shard_is_refused(many, tmp_path):
    manifest = copied(many, tmp_path)
    (manifest.directory / "train-00003.lmdb").unlink()
    with pytest.raises(DataError, match=r"train-00003\.lmdb: missing"):
        TokenStream(manifest, "train")


def test_an_unfinished_node_has_no_manifest_and_is_refused(many, tmp_path):
    manifest = copied(many, tmp_path)
    manifest.path.unlink()
    with pytest.raises(DataError, match="no such manifest"):
        Manifest.read(manifest.path)


def test_a_read_only_folder_is_read(many, tmp_path):
    manifest = copied(many, tmp_path)
    paths = [manifest.directory, *manifest.directory.iterdir()]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = sorted(path.name for path in manifest.directory.iterdir())
    assert np.array_equal(TokenStream(manifest, "train", verify=True).read(0, len(many[1])), many[1])
    assert sorted(path.name for path in manifest.directory.iterdir()) == before


def test_tokens_can_not_be_altered_through_the_reader(many):
    with pytest.raises(ValueError, match="read-only"):
        TokenStream(many[0], "train").shard(0)[0] = 1


def test_many_readers_at_once_read_the_same(many):
    manifest, expected = many
    stream, found = TokenStream(manifest, "train"), []
    threads = [threading.Thread(target=lambda: found.append(stream.read(0, len(expected)))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    others = [TokenStream(manifest, "train").read(0, len(expected)) for _ in range(3)]
    assert len(found) == 8
    assert all(np.array_equal(tokens, expected) for tokens in [*found, *others])


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("mapped", [False, True])
def test_workers_read_a_stream_of_their_parent(many, method, mapped):
    manifest, expected = many
    stream = TokenStream(manifest, "train")
    if mapped:
        stream.read(0, len(stream))
    with multiprocessing.get_context(method).Pool(2) as pool:
        # A method of the package: a spawned worker need not find this test module to import it.
        found = pool.starmap_async(TokenStream.read, [(stream, 0, len(stream))] * 4).get(timeout=120)
    assert all(np.array_equal(tokens, expected) for tokens in found)


def test_a_pickle_holds_no_tokens(many):
    stream = TokenStream(many[0], "train")
    stream.read(0, len(stream))
    data = pickle.dumps(stream.sequences(16))
    assert len(data) < 30_000
    assert np.array_equal(pickle.loads(data)[3], many[1][48:64])


def test_a_torch_loader_gets_whole_batches(many):
    from torch.utils.data import DataLoader

    manifest, expected = many
    loader = DataLoader(TokenStream(manifest, "train").sequences(32), batch_size=8, collate_fn=lambda batch: batch)
    batches = [np.asarray(batch) for batch in loader]
    assert np.array_equal(np.concatenate(batches), expected[: len(expected) // 32 * 32].reshape(-1, 32))
