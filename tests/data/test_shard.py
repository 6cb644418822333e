"""Shards as files: reproducible to the byte, readable by LMDB itself, whole or not there."""

import json
import signal
import subprocess
import sys
import time

import lmdb
import numpy as np
import pytest

from smelt.data.shard import ShardWriter, token_type, write_values
from smelt.plan.errors import DataError, StorageError

U16, U32 = np.dtype("<u2"), np.dtype("<u4")


def write(directory, documents, dtype=U16, max_bytes=2**20, split="train"):
    directory.mkdir(parents=True, exist_ok=True)
    with ShardWriter(directory, split, dtype, max_bytes, {"tokenizer": "t-1"}) as writer:
        for number, ids in enumerate(documents):
            writer.add(np.asarray(ids, dtype), f"doc-{number}")
    return writer.records


def values(path):
    """What LMDB itself reads."""
    with (
        lmdb.open(str(path), subdir=False, readonly=True, lock=False) as environment,
        environment.begin() as transaction,
    ):
        return {bytes(key).decode(): bytes(value) for key, value in transaction.cursor()}


def made(count, longest=500, seed=0, vocabulary=60_000):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, vocabulary, rng.integers(0, longest)) for _ in range(count)]


@pytest.mark.parametrize("dtype", [U16, U32])
@pytest.mark.parametrize("count", [1, 3, 50, 400])
def test_lmdb_reads_what_was_written_and_the_offsets_lead_to_it(tmp_path, dtype, count):
    documents = made(count)
    (record,) = write(tmp_path, documents, dtype)
    found = values(tmp_path / record["file"])
    tokens, starts = np.frombuffer(found["tokens"], dtype), np.frombuffer(found["documents"], "<u8")
    assert np.array_equal(tokens, np.concatenate(documents))
    assert np.array_equal(starts, np.cumsum([0, *map(len, documents)])[:-1])
    content = (tmp_path / record["file"]).read_bytes()
    assert content[record["offset"] :].startswith(found["tokens"])
    assert content[record["documents_offset"] :].startswith(found["documents"])
    about = json.loads(found["about"])
    assert about == {
        "tokenizer": "t-1", "split": "train", "shard": 0, "dtype": dtype.str, "tokens": len(tokens), "documents": count,
    }  # fmt: skip


def test_documents_of_length_0_are_kept(tmp_path):
    (record,) = write(tmp_path, [[], [5], [], [], [6, 7], []])
    assert record["documents"] == 6
    assert np.frombuffer(values(tmp_path / record["file"])["documents"], "<u8").tolist() == [0, 0, 1, 1, 1, 3]


def test_a_shard_of_nothing_but_empty_documents_can_be_written(tmp_path):
    (record,) = write(tmp_path, [[], []])
    assert (record["tokens"], record["documents"]) == (0, 2)


def test_a_split_without_documents_has_no_shard(tmp_path):
    assert write(tmp_path, []) == []
    assert list(tmp_path.iterdir()) == []


def test_shards_are_cut_between_documents_and_never_beyond_the_bound(tmp_path):
    documents = made(200, longest=300)
    records = write(tmp_path, documents, max_bytes=4096)
    assert len(records) > 10
    assert [record["file"] for record in records] == [f"train-{i:05}.lmdb" for i in range(len(records))]
    assert all(record["tokens"] * 2 <= 4096 for record in records)
    assert sum(record["documents"] for record in records) == 200
    tokens = [np.frombuffer(values(tmp_path / record["file"])["tokens"], "<u2") for record in records]
    assert np.array_equal(np.concatenate(tokens), np.concatenate(documents))


def test_a_document_beyond_a_shard_is_refused_by_name(tmp_path):
    with pytest.raises(DataError, match=r"document 'doc-1' has 1,000 tokens, a shard holds 512: raise max_shard_bytes"):
        write(tmp_path, [[1], range(1000)], max_bytes=1024)
    assert list(tmp_path.iterdir()) == []


def test_equal_documents_give_equal_bytes_in_any_folder(tmp_path):
    for folder in ("one", "a longer path/with spaces"):
        write(tmp_path / folder, made(300), max_bytes=2**16)
    one, other = sorted((tmp_path / "one").iterdir()), sorted((tmp_path / "a longer path/with spaces").iterdir())
    assert len(one) == len(other) > 1
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in other]


def test_the_file_is_hardly_larger_than_the_tokens(tmp_path):
    (record,) = write(tmp_path, [np.arange(8_000_000) % 50_000], max_bytes=2**24)
    assert (tmp_path / record["file"]).stat().st_size / 16_000_000 < 1.002


def test_uint16_up_to_65536_ids():
    assert (token_type(2), token_type(65_536), token_type(65_537)) == (U16, U16, U32)
    assert np.iinfo(token_type(65_536)).max == 65_535


def test_repeated_content_is_found_at_a_right_place(tmp_path):
    """Payloads that begin alike, or occur within another, must not lead to the wrong offset."""
    tokens = np.zeros(10_000, "<u2")
    tokens[-1] = 7
    offsets = write_values(
        tmp_path / "a.lmdb", {"about": b"\0" * 5000, "documents": np.zeros(3, "<u8"), "tokens": tokens}
    )
    content = (tmp_path / "a.lmdb").read_bytes()
    assert content[offsets["tokens"] :].startswith(tokens.tobytes())
    assert content[offsets["documents"] :].startswith(bytes(24))


def test_a_kill_while_writing_leaves_nothing_that_bears_the_name_of_a_shard(tmp_path):
    """Killed at many moments; a shard that is there under its name is whole."""
    program = (
        "import sys, pathlib, numpy as np; sys.path[:0] = sys.argv[2:]\n"
        "from smelt.data.shard import ShardWriter\n"
        "w = ShardWriter(pathlib.Path(sys.argv[1]), 'train', np.dtype('<u2'), 2**22, {})\n"
        "print('ready', flush=True)\n"
        "with w:\n"
        "    while True: w.add(np.arange(2**20) % 60000)\n"
    )
    for moment in (0.0, 0.011, 0.023, 0.05, 0.1):
        folder = tmp_path / str(moment)
        folder.mkdir()
        writer = subprocess.Popen([sys.executable, "-c", program, folder], stdout=subprocess.PIPE)
        writer.stdout.readline()
        time.sleep(moment)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        for path in folder.glob("*.lmdb"):
            if not path.name.startswith("."):
                assert len(values(path)["tokens"]) == 2**22


def test_a_full_disk_is_one_clear_error_and_leaves_nothing(tmp_path):
    """A limit on the size of files stands in for the disk: the kernel refuses the write in the same call."""
    program = (
        "import sys, pathlib, resource, signal, numpy as np\n"
        "from smelt.data.shard import write_values; from smelt.plan.errors import StorageError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))\n"
        "try: write_values(pathlib.Path(sys.argv[1]), {'tokens': np.arange(2**22, dtype='<u2')})\n"
        "except StorageError as error: print(error)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "a.lmdb"], capture_output=True, text=True, check=True
    )
    assert "a.lmdb: Input/output error; see whether the disk is full or fails, or use another --directory" in ran.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_can_not_be_written_to_is_one_clear_error(tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(StorageError, match=r"a\.lmdb.*a file stands where a folder is wanted"):
        write_values(tmp_path / "taken" / "a.lmdb", {"tokens": b"12"})


def test_writing_takes_memory_for_one_shard_whatever_the_input(tmp_path):
    program = (
        "import sys, pathlib, resource, numpy as np\n"
        "from smelt.data.shard import ShardWriter\n"
        "ids = np.arange(2**16, dtype='<u2')\n"
        "with ShardWriter(pathlib.Path(sys.argv[1]), 'train', ids.dtype, 2**22, {}) as w:\n"
        "    for _ in range(int(sys.argv[2])): w.add(ids)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    peaks = []
    for documents in (64, 256, 1024):
        folder = tmp_path / str(documents)
        folder.mkdir()
        ran = subprocess.run(
            [sys.executable, "-c", program, folder, str(documents)], capture_output=True, text=True, check=True
        )
        peaks.append(int(ran.stdout))
    assert max(peaks) < 1.1 * min(peaks)


def test_an_error_in_the_block_writes_no_further_shard(tmp_path):
    with pytest.raises(RuntimeError), ShardWriter(tmp_path, "train", U16, 1024, {}) as writer:
        writer.add(np.arange(10, dtype=U16))
        raise RuntimeError("the encoder failed")
    assert list(tmp_path.iterdir()) == []
