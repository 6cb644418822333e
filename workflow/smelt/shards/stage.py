"""Tokenise the documents of a corpus into LMDB shards (`smelt.data.shard` says what is in one).

Every document's tokens end with `eos`, so that one without text is kept as that token alone.
"""

from typing import Any

import numpy as np

from smelt.data.documents import read_documents
from smelt.data.encoder import EOS, Encoder
from smelt.data.shard import ShardWriter
from smelt.data.words import count_words
from smelt.plan.errors import DataError
from smelt.plan.job import Job, Product, figure
from smelt.plan.manifest import Manifest
from smelt.plan.progress import Progress
from smelt.plan.settings.shards import Shards

SPLITS = ("train", "valid", "test")


def run(job: Job) -> Product:
    settings, corpus, tokenizer = Shards.model_validate(job.settings), job.input("corpus"), job.input("tokenizer")
    encoder = Encoder.load(tokenizer)
    about = {"tokenizer": tokenizer.id, "vocab_size": encoder.vocab_size, "eos": EOS}
    splits = {}
    for split in SPLITS:
        writer = ShardWriter(job.directory, split, encoder.dtype, settings.max_shard_bytes, about)
        splits[split] = _tokenise(job, corpus, split, encoder, writer)
    files = [shard["file"] for split in splits.values() for shard in split["shards"]]
    figures = [figure("tokens", split, counts["tokens"], "tokens") for split, counts in splits.items()]
    return Product(files, {"dtype": encoder.dtype.str, **about, "splits": splits, "figures": figures})


def _tokenise(job: Job, corpus: Manifest, split: str, encoder: Encoder, writer: ShardWriter) -> dict[str, Any]:
    """Encode and write one split; returns its counts and the records of its shards. Raises DataError if it has no document."""
    counts = {"tokens": 0, "documents": 0, "bytes": 0, "words": 0}
    rows = read_documents(corpus.file(f"{split}.jsonl.zst"))
    with writer, Progress(job, corpus.facts["documents"][split], f"documents of {split}") as progress:
        for row, ids in encoder.encode_documents(rows, job.threads):
            writer.add(np.append(ids, encoder.dtype.type(EOS)), row["id"])
            counts["tokens"] += len(ids) + 1
            counts["documents"] += 1
            counts["bytes"] += len(row["text"].encode())
            counts["words"] += count_words(row["text"])
            progress.update(1, tokens=counts["tokens"])
    if not counts["documents"]:
        raise DataError(f"{corpus.path}: split {split!r} holds no document; give it a larger share or take more text")
    return {**counts, "shards": writer.records}
