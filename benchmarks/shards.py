"""The data plane side by side with its peers: tokenising, writing shards, reading batches.

    python benchmarks/shards.py [--megabytes N] [--repeats N] [--only NAME …]

The text is English prose, the docstrings of the Python packages that are installed. Both sides work on the same text or tokens, in turn.
"""

import argparse
import ast
import os
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
import record

from smelt.data.documents import read_documents, write_documents
from smelt.data.encoder import EOS
from smelt.data.sentence_pieces import SentencePieces
from smelt.data.shard import ShardWriter, token_type
from smelt.data.tokens import TokenStream
from smelt.plan.manifest import FORMAT, Manifest, listing, to_json

SEQUENCE, BATCH = 2048, 64
CORES = len(os.sched_getaffinity(0))


def prose(megabytes: float) -> list[str]:
    """One document a file: the docstrings of installed modules, up to the size, none twice."""
    texts, seen, size = [], set(), 0
    for path in chain(*(sorted(Path(sysconfig.get_path(name)).rglob("*.py")) for name in ("purelib", "stdlib"))):
        found = [text for text in docstrings(path) if text not in seen]
        seen.update(found)
        if found:
            texts.append("\n\n".join(found))
            size += len(texts[-1].encode())
        if size >= megabytes * 1e6:
            return texts
    return texts


def docstrings(path: Path) -> Iterator[str]:
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        # Templates and test cases of other packages; they are no text either.
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
            yield text


def made_tokens(count: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 32_000, count, dtype=np.uint16)


def write_shard(folder: Path, tokens: np.ndarray) -> list[dict[str, Any]]:
    """One shard of documents of a thousand tokens."""
    with ShardWriter(folder, "train", tokens.dtype, tokens.nbytes, {}) as writer:
        for start in range(0, len(tokens), 1000):
            writer.add(tokens[start : start + 1000])
    return writer.records


def shard_write(folder: Path, repeats: int, command: str) -> list[dict[str, Any]]:
    """The same tokens as one shard and as one raw file, both synced to the disk."""
    tokens = made_tokens(32 * 2**20)
    shards: list[dict[str, Any]] = []

    def ours() -> None:
        shards[:] = write_shard(folder, tokens)

    def theirs() -> None:
        with (folder / "raw").open("wb") as file:
            file.write(tokens)
            file.flush()
            os.fsync(file.fileno())

    seconds = record.interleaved({"ours": ours, "theirs": theirs}, repeats)
    disk = sum((folder / shard["file"]).stat().st_size for shard in shards)
    payload = tokens.nbytes + sum(8 * shard["documents"] for shard in shards)
    return [
        record.rate_row("shard-write-vs-raw", seconds, tokens.nbytes / 1e6, "MB/s", "raw file, fsynced", command),
        record.row(
            "shard-disk-vs-payload", disk, "tokens and the 8 bytes of each document", payload, "bytes", "lower", command
        ),
    ]


def read_batch(folder: Path, repeats: int, command: str) -> list[dict[str, Any]]:
    """Batches of random sequences from the page cache, against np.memmap with the same fancy indexing."""
    tokens = made_tokens(32 * 2**20)
    shards = write_shard(folder, tokens)
    counts = {"tokens": len(tokens), "documents": 1, "bytes": 1, "words": 1, "shards": shards}
    facts = {"dtype": "<u2", "eos": EOS, "vocab_size": 32_000, "tokenizer": "none", "splits": {"train": counts}}
    about = {"format": FORMAT, "stage": "shards", "node": "made-0000000000", "settings": {}, "upstream": {}}
    content = {**about, "files": listing(folder, [each["file"] for each in shards]), "facts": facts}
    (folder / "manifest.json").write_text(to_json(content))
    tokens.tofile(folder / "raw")
    ours = TokenStream(Manifest.read(folder / "manifest.json"), "train").sequences(SEQUENCE)
    # As well as it can be written: a plain array over the map, one gather, one widening.
    theirs = np.asarray(np.memmap(folder / "raw", np.uint16, "r")).reshape(-1, SEQUENCE)
    batches = np.random.default_rng(1).integers(0, len(ours), (400, BATCH))
    assert all(np.array_equal(ours.__getitems__(rows), theirs[rows].astype(np.int64)) for rows in batches[:20])
    seconds = record.interleaved(
        {
            "ours": lambda: [ours.__getitems__(rows) for rows in batches] and None,
            "theirs": lambda: [theirs[rows].astype(np.int64) for rows in batches] and None,
        },
        repeats * 3,
    )
    amount = batches.size * SEQUENCE / 1e6
    return [
        record.rate_row(
            "read-batch-vs-memmap", seconds, amount, "million tokens/s", "np.memmap, fancy-indexed", command
        )
    ]


def tokenise(folder: Path, repeats: int, command: str, megabytes: float) -> list[dict[str, Any]]:
    """Documents in, token blocks on disk out: our encoder and shards, against the `datasets.map` + group-texts recipe of run_clm."""
    from smelt.plan.settings.tokenizer import Tokenizer
    from smelt.tokenizer.sample import draw, lines
    from smelt.tokenizer.training import train

    texts = prose(megabytes)
    size = sum(len(text.encode()) for text in texts) / 1e6
    write_documents(folder / "train.jsonl.zst", ({"id": str(i), "text": text} for i, text in enumerate(texts)))
    model = train(lines(draw(texts, 4_000_000, 0)[0]), Tokenizer(vocab_size=16_000))

    def ours() -> float:
        encoder = SentencePieces(model)
        started = time.perf_counter()
        with ShardWriter(folder, "train", token_type(encoder.vocab_size), 2**28, {}) as writer:
            for _, ids in encoder.encode_documents(read_documents(folder / "train.jsonl.zst"), CORES):
                writer.add(np.append(ids, encoder.dtype.type(EOS)))
        return time.perf_counter() - started

    seconds = record.interleaved({"ours": ours, "theirs": lambda: recipe(folder, texts, model)}, repeats)
    peer = f"datasets.map(num_proc={CORES}) + group texts, the same pieces in tokenizers, split into words"
    return [record.rate_row("tokenise-vs-datasets-map-en", seconds, size, "MB/s", peer, command)]


def recipe(folder: Path, texts: list[str], model: bytes) -> float:
    """Seconds of the two maps of transformers' run_clm.py, results in Arrow files. Ours reads the documents from disk in that time; this has them in memory."""
    import datasets
    from tokenizers import normalizers, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    from smelt.tokenizer.export import fast

    datasets.disable_progress_bars()
    built = fast(SentencePieces(model))
    # As such tokenizers are usually built: words are cut first and cached.
    built.normalizer = normalizers.Sequence([])
    built.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_next")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=built, eos_token="</s>")
    raw = datasets.Dataset.from_dict({"text": texts})
    started = time.perf_counter()
    tokenised = raw.map(
        lambda batch: tokenizer(batch["text"], return_attention_mask=False, return_token_type_ids=False),
        batched=True, num_proc=CORES, remove_columns=["text"], cache_file_name=str(folder / "a.arrow"), load_from_cache_file=False,
    )  # fmt: skip
    tokenised.map(
        group_texts, batched=True, num_proc=CORES, cache_file_name=str(folder / "b.arrow"), load_from_cache_file=False
    )
    return time.perf_counter() - started


def group_texts(batch: dict[str, list[list[int]]]) -> dict[str, list[list[int]]]:
    """All ids end to end, cut into blocks."""
    ids = list(chain(*batch["input_ids"]))
    total = len(ids) // SEQUENCE * SEQUENCE
    return {"input_ids": [ids[i : i + SEQUENCE] for i in range(0, total, SEQUENCE)]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=8, help="text to tokenise")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--only", nargs="*", choices=["write", "read", "tokenise"], default=["write", "read", "tokenise"]
    )
    arguments = parser.parse_args()
    command = f"python benchmarks/shards.py --megabytes {arguments.megabytes:g} --repeats {arguments.repeats}"
    rows: list[dict[str, Any]] = []
    for name in arguments.only:
        with tempfile.TemporaryDirectory() as scratch:
            if name == "write":
                rows += shard_write(Path(scratch), arguments.repeats, command)
            elif name == "read":
                rows += read_batch(Path(scratch), arguments.repeats, command)
            else:
                rows += tokenise(Path(scratch), max(3, arguments.repeats // 2), command, arguments.megabytes)
    record.write("shards", rows)


if __name__ == "__main__":
    main()
