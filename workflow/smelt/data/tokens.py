"""Tokens as training and evaluation read them: one long stream a split, or the sequences that it is cut into.

    stream = TokenStream(shards_manifest, "train", tokenizer=tokenizer_manifest.id)
    sequences = stream.sequences(1024)
    batch = sequences.__getitems__([3, 1, 4])  # [3, 1024] int64

A shard's payload is mapped at the offset that its manifest gives: py-lmdb's own `get` touches every page of a value before
it returns. Files are mapped when first needed and left out of a pickle, so a stream goes into forked and spawned workers.
"""

from pathlib import Path
from typing import Any

import numpy as np

from smelt.data.shard import MAGIC, MAGIC_OFFSET, content_digest
from smelt.plan.errors import DataError
from smelt.plan.manifest import Manifest


class TokenStream:
    """All tokens of a split, document after document, each ended by `eos`.

    With `verify`, each shard's content is checked against its checksum when it is first mapped in this process.
    """

    def __init__(self, shards: Manifest, split: str, tokenizer: str | None = None, verify: bool = False) -> None:
        """Raises DataError for a split that is not there, a file that is missing or cut off, and, if the node id of
        a tokenizer is given, for shards that were made with another."""
        facts = shards.facts
        if tokenizer is not None and facts["tokenizer"] != tokenizer:
            raise DataError(
                f"{shards.path}: these shards were made with tokenizer {facts['tokenizer']}, not with {tokenizer}: "
                "their ids mean other pieces; make shards with this tokenizer"
            )
        if split not in facts["splits"]:
            raise DataError(f"{shards.path}: no split {split!r}; there are {', '.join(sorted(facts['splits']))}")
        self.split, self.verified = split, verify
        self.eos: int = facts["eos"]
        self.vocab_size: int = facts["vocab_size"]
        self.dtype = np.dtype(facts["dtype"])
        self.counts: dict[str, int] = {
            name: facts["splits"][split][name] for name in ("tokens", "documents", "bytes", "words")
        }
        self._records: list[dict[str, Any]] = facts["splits"][split]["shards"]
        self._paths = [_checked(shards.file(record["file"])) for record in self._records]
        self.bounds = np.cumsum([0, *(record["tokens"] for record in self._records)], dtype=np.int64)
        """[shards + 1]: where in the stream each shard begins, and the end."""
        self._mapped: dict[int, np.ndarray] = {}

    def __len__(self) -> int:
        """Tokens."""
        return int(self.bounds[-1])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_mapped": {}}

    @property
    def shards(self) -> int:
        return len(self._records)

    def shard(self, number: int) -> np.ndarray:
        """The tokens of one shard: [tokens] uint16 or uint32, mapped and read-only."""
        if number not in self._mapped:
            if self.verified:
                self._verify(number)
            self._mapped[number] = self._map(number)
        return self._mapped[number]

    def read(self, start: int, stop: int) -> np.ndarray:
        """Tokens [start, stop) of the stream: [stop - start] int64."""
        if not 0 <= start <= stop <= len(self):
            raise IndexError(f"tokens [{start}, {stop}) of a stream of {len(self)}")
        first, last = np.searchsorted(self.bounds, [start, stop], side="right") - 1
        parts = []
        for number in range(first, min(last, self.shards - 1) + 1):
            begin = int(self.bounds[number])
            parts.append(self.shard(number)[max(start - begin, 0) : stop - begin])
        return np.concatenate([part.astype(np.int64) for part in parts]) if parts else np.empty(0, np.int64)

    def document_starts(self) -> np.ndarray:
        """The token of the stream at which each document begins: [documents] int64, in memory."""
        starts = [self._starts(number).astype(np.int64) + self.bounds[number] for number in range(self.shards)]
        return np.concatenate(starts) if starts else np.empty(0, np.int64)

    def sequences(self, length: int) -> "Sequences":
        """The stream cut into sequences of `length` tokens; what is left at the end is not among them."""
        return Sequences(self, length)

    def verify(self) -> None:
        """Read everything once and compare it with the checksums. Raises DataError naming the first shard that differs."""
        for number in range(self.shards):
            self._verify(number)

    def _verify(self, number: int) -> None:
        record, tokens = self._records[number], self._map(number)
        if content_digest(tokens, self._starts(number)) != record["xxh3"]:
            raise DataError(
                f"{self._paths[number]}: content differs from the checksum in its manifest (a damaged disk or copy); "
                "delete the manifest beside it and run snakemake again"
            )
        largest = int(tokens.max(initial=0))
        if largest >= self.vocab_size:
            raise DataError(f"{self._paths[number]}: holds id {largest}, the vocabulary ends at {self.vocab_size - 1}")

    def _map(self, number: int) -> np.ndarray:
        record = self._records[number]
        return _mapped(self._paths[number], self.dtype, record["offset"], record["tokens"])

    def _starts(self, number: int) -> np.ndarray:
        record = self._records[number]
        return _mapped(self._paths[number], np.dtype("<u8"), record["documents_offset"], record["documents"])


class Sequences:
    """A stream as rows of `length` tokens, for a `DataLoader` (which calls `__getitems__` with a batch of indices)."""

    def __init__(self, stream: TokenStream, length: int) -> None:
        """Raises DataError if the stream holds not even one sequence."""
        if length < 1:
            raise ValueError(f"a sequence needs at least one token, not {length}")
        if len(stream) < length:
            raise DataError(
                f"split {stream.split!r} holds {len(stream):,} tokens, fewer than one sequence of {length:,}: "
                "shorten the sequence or take more text"
            )
        self.stream, self.length = stream, length
        # The first row that begins in each shard, and how many lie in it wholly.
        self._first = -(-stream.bounds[:-1] // length)
        self._whole = np.maximum(0, stream.bounds[1:] // length - self._first)

    def __len__(self) -> int:
        return len(self.stream) // self.length

    def __getitem__(self, index: int) -> np.ndarray:
        """[length] int64"""
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Any) -> np.ndarray:
        """Rows in the order asked for: [len(indices), length] int64. Raises IndexError beyond [0, len)."""
        rows = np.asarray(indices, np.int64)
        if len(rows) and not (rows.min() >= 0 and rows.max() < len(self)):
            raise IndexError(f"sequence {rows.min()} or {rows.max()} of {len(self)}")
        if self.stream.shards == 1:
            return self._rows(0)[rows].astype(np.int64)
        batch = np.empty((len(rows), self.length), np.int64)
        shards = np.searchsorted(self.stream.bounds, rows * self.length, side="right") - 1
        within = rows - self._first[shards]
        whole = within < self._whole[shards]
        for number in np.unique(shards[whole]):
            chosen = np.flatnonzero(whole & (shards == number))
            batch[chosen] = self._rows(number)[within[chosen]]
        for place in np.flatnonzero(~whole):
            start = int(rows[place]) * self.length
            batch[place] = self.stream.read(start, start + self.length)
        return batch

    def _rows(self, number: int) -> np.ndarray:
        """The rows that lie wholly in a shard: a view of [rows, length]."""
        start = int(self._first[number]) * self.length - int(self.stream.bounds[number])
        count = int(self._whole[number])
        return self.stream.shard(number)[start : start + count * self.length].reshape(count, self.length)


def _checked(path: Path) -> Path:
    """`path`, after a look at its header. Its size was compared with the manifest: mapping a file that is cut off would kill the process."""
    with path.open("rb") as file:
        header = file.read(MAGIC_OFFSET + len(MAGIC))
    if header[MAGIC_OFFSET:] != MAGIC:
        raise DataError(
            f"{path}: not an LMDB file of format 0.9; delete the manifest beside it and run snakemake again"
        )
    return path


def _mapped(path: Path, dtype: np.dtype, offset: int, count: int) -> np.ndarray:
    """[count] `dtype` of the file from `offset`, read-only. A plain array: indexing a `memmap` costs twice as much."""
    if not count:
        return np.empty(0, dtype)
    try:
        return np.asarray(np.memmap(path, dtype, "r", offset, (count,)))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: can't be mapped ({error}); run snakemake again to make it anew") from error
