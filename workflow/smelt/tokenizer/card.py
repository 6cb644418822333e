"""What a tokenizer does to held-out text: how many tokens a word and a byte take, and what it has no piece for."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from smelt.data.encoder import UNK, Encoder
from smelt.data.words import count_words
from smelt.plan.job import figure

LONGEST = 20


@dataclass
class Counts:
    """Sums over a split."""

    documents: int = 0
    bytes: int = 0
    words: int = 0
    tokens: int = 0
    unknown: int = 0
    byte_fallback: int = 0

    def rates(self) -> dict[str, float]:
        """Figures of the card. A split without words or tokens counts as one of each, so that nothing is divided by zero."""
        return {
            "tokens_per_word": self.tokens / max(self.words, 1),
            "tokens_per_byte": self.tokens / max(self.bytes, 1),
            "bytes_per_token": self.bytes / max(self.tokens, 1),
            "unknown_rate": self.unknown / max(self.tokens, 1),
            "byte_fallback_rate": self.byte_fallback / max(self.tokens, 1),
        }


UNITS = {
    "tokens_per_word": "tokens/word",
    "tokens_per_byte": "tokens/byte",
    "bytes_per_token": "bytes/token",
    "unknown_rate": "share of tokens",
    "byte_fallback_rate": "share of tokens",
}


def count(encoder: Encoder, rows: Iterable[dict[str, Any]], threads: int) -> Counts:
    """Encode all rows."""
    counts = Counts()
    for row, ids in encoder.encode_documents(rows, threads):
        counts.documents += 1
        counts.bytes += len(row["text"].encode())
        counts.words += count_words(row["text"])
        counts.tokens += len(ids)
        counts.unknown += int(np.count_nonzero(ids == UNK))
        counts.byte_fallback += int(np.count_nonzero(encoder.is_fallback[ids]))
    return counts


def card(encoder: Encoder, counts: dict[str, Counts], trained_on: dict[str, Any]) -> dict[str, Any]:
    pieces = sorted(
        (encoder.piece(number) for number in np.flatnonzero(~encoder.is_byte)), key=lambda piece: (-len(piece), piece)
    )
    return {
        "vocab_size": encoder.vocab_size,
        "encoded_by": encoder.library,
        "trained_on": trained_on,
        "splits": {split: {**vars(sums), **sums.rates()} for split, sums in counts.items()},
        "longest_pieces": pieces[:LONGEST],
    }


def figures(counts: dict[str, Counts]) -> list[dict[str, Any]]:
    return [
        figure(name, split, value, UNITS[name])
        for split, sums in counts.items()
        for name, value in sums.rates().items()
    ]
