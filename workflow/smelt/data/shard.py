"""Shards: one LMDB file with the tokens of many documents.

Three values: `tokens` (little-endian uint16 or uint32, all documents end to end), `documents` (little-endian uint64, the
token at which each begins) and `about` (JSON). One value for all tokens and not one a sequence: a sequence of 2,048 uint16
would take twice its size on disk, since LMDB rounds to pages, and could not be read in batches.

A file is reproducible to the byte: format 0.9, no write map, one transaction, keys in order, a map size that follows from
the payload (LMDB stores it). It comes into being under a temporary name, so what bears the name of a shard is whole.
"""

import mmap
import os
import struct
from array import array
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import xxhash

from smelt.data.storage import storing
from smelt.plan.errors import DataError
from smelt.plan.manifest import canonical

MAGIC = struct.pack("<II", 0xBEEFC0DE, 1)
"""Magic number and version of the 0.9 format, at byte 16 of the file (mdb.c: MDB_MAGIC, MDB_DATA_VERSION, after the page header)."""
MAGIC_OFFSET = 16
_MEBIBYTE = 2**20


def token_type(vocab_size: int) -> np.dtype:
    """The smallest of uint16 and uint32 that holds every id."""
    return np.dtype("<u2" if vocab_size <= 65_536 else "<u4")


class ShardWriter:
    """Cuts a stream of documents into shards `<split>-00000.lmdb`, …, of at most `max_bytes` of tokens each.

        with ShardWriter(directory, "train", dtype, max_bytes, about) as writer:
            writer.add(tokens)
        writer.records  # what the manifest says of each shard

    Leaving the block by an error leaves no shard of what was not yet written.
    """

    def __init__(self, directory: Path, split: str, dtype: np.dtype, max_bytes: int, about: dict[str, Any]) -> None:
        self.directory, self.split, self.about = directory, split, about
        # The kernel gives the pages of an empty array as they are written to.
        self._tokens = np.empty(max(1, max_bytes // dtype.itemsize), dtype)
        self._used = 0
        self._starts = array("Q")
        self.records: list[dict[str, Any]] = []

    def add(self, tokens: np.ndarray, name: str = "") -> None:
        """Append one document, of any length. Raises DataError, naming the document, if it alone is more than a shard may hold."""
        if len(tokens) > len(self._tokens):
            limit = len(self._tokens)
            raise DataError(
                f"{self.split}: document {name!r} has {len(tokens):,} tokens, a shard holds {limit:,}: "
                "raise max_shard_bytes (up to 536870912) or cut the document in the corpus"
            )
        if self._used + len(tokens) > len(self._tokens):
            self._flush()
        self._starts.append(self._used)
        self._tokens[self._used : self._used + len(tokens)] = tokens
        self._used += len(tokens)

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self._starts:
            self._flush()

    def _flush(self) -> None:
        name = f"{self.split}-{len(self.records):05}.lmdb"
        tokens = self._tokens[: self._used]
        starts = np.frombuffer(self._starts, np.uint64).astype("<u8")
        counts = {"tokens": len(tokens), "documents": len(starts)}
        about = {**self.about, **counts, "split": self.split, "shard": len(self.records), "dtype": tokens.dtype.str}
        values = {"about": canonical(about).encode(), "documents": starts, "tokens": tokens}
        offsets = write_values(self.directory / name, values)
        self.records.append(
            {
                "file": name,
                **counts,
                "offset": offsets["tokens"],
                "documents_offset": offsets["documents"],
                "xxh3": content_digest(tokens, starts),
            }
        )
        self._used, self._starts = 0, array("Q")


def content_digest(tokens: np.ndarray, starts: np.ndarray) -> str:
    """xxh3-128 over the payload of `tokens` and `documents`: 32 hex digits."""
    digest = xxhash.xxh3_128(np.ascontiguousarray(tokens).view(np.uint8))
    digest.update(np.ascontiguousarray(starts).view(np.uint8))
    return digest.hexdigest()


def write_values(path: Path, values: dict[str, Any]) -> dict[str, int]:
    """Write an LMDB file of `values` (buffers, in the order of their keys) and return the byte at which each begins.

    Raises StorageError if the disk is full or the folder can't be written to; nothing is left then.
    """
    temporary = path.with_name(f".{path.name}.partial")
    with storing(path):
        temporary.unlink(missing_ok=True)
    views = {
        key: memoryview(value).cast("B") if len(value) else memoryview(b"") for key, value in sorted(values.items())
    }
    # Twice a page for every value and the trees beside it; whole mebibytes, so that the number is a plain one.
    size = (sum(map(len, views.values())) // _MEBIBYTE + 2) * _MEBIBYTE
    try:
        with storing(path):
            _put(temporary, views, size)
            offsets = _offsets(temporary, views)
            os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return offsets


def _put(path: Path, views: dict[str, memoryview], size: int) -> None:
    """The values into a new LMDB file of map size `size`. Raises OSError for an error of LMDB, with its number and reason."""
    try:
        # Synced once below; a commit that syncs would do it twice.
        with lmdb.open(str(path), map_size=size, subdir=False, lock=False, sync=False, lib_version=0) as environment:
            with environment.begin(write=True) as transaction:
                for key, view in views.items():
                    transaction.put(key.encode(), view, append=True)
            environment.sync(True)
    except lmdb.Error as error:
        raise OSError(error.code, error.reason) from error


def _offsets(path: Path, views: dict[str, memoryview]) -> dict[str, int]:
    """Where in the file each payload lies: small ones within a leaf page, others after the header of an overflow page.

    py-lmdb tells no address, so the bytes are looked for, and every byte compared.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        return {key: _find(mapped, view) for key, view in views.items()}


def _find(mapped: mmap.mmap, payload: memoryview) -> int:
    if not len(payload):
        return 0
    # The first two pages are LMDB's own.
    head, offset = bytes(payload[:4096]), 2 * 4096 - 1
    while (offset := mapped.find(head, offset + 1)) >= 0:
        if _equal(mapped, offset, payload):
            return offset
    raise AssertionError("LMDB did not store the value as it was given")


def _equal(mapped: mmap.mmap, offset: int, payload: memoryview) -> bool:
    """In pieces that stay in the processor's cache."""
    for start in range(0, len(payload), _MEBIBYTE):
        piece = bytes(payload[start : start + _MEBIBYTE])
        if mapped[offset + start : offset + start + len(piece)] != piece:
            return False
    return True
