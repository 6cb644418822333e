"""The encoder of a byte-level BPE (Radford et al. 2019): words of a regular expression, each cut into pieces of its UTF-8 bytes.

`tiktoken` encodes. It takes the merges for the order of the pieces, which training with `tokenizers` makes them, and the
expression is written so that both engines read it alike (tests/tokenizer/test_byte_level.py, on every assigned character of Unicode).
"""

import json
from collections.abc import Sequence

import numpy as np
import tiktoken

from smelt.data.encoder import SPECIAL_PIECES, Encoder
from smelt.plan.errors import DataError

BYTES = 256
WORDS = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s{1,1000}(?!\S)|\s"
"""GPT-2's expression, but for the bound on white space: without it tiktoken's engine fails on a run of a million spaces."""
DIGITS = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s{1,1000}(?!\S)|\s"
"""The same with every digit a word of its own."""


class ByteLevel(Encoder):
    """A byte-level BPE, of its `tokenizer.json`."""

    FILE = "hf/tokenizer.json"
    library = "tiktoken"

    def __init__(self, model: bytes, normalization: str = "identity") -> None:
        """`model` is a file of the `tokenizers` library. Raises DataError if it is none of a byte-level BPE as trained here."""
        try:
            found = json.loads(model)
            expression = found["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"]
            ranks = {
                bytes(_BYTE_OF[letter] for letter in piece): number
                for piece, number in found["model"]["vocab"].items()
                if number >= len(SPECIAL_PIECES)
            }
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise DataError(f"not a byte-level BPE of this version ({type(error).__name__}: {error})") from None
        super().__init__(len(SPECIAL_PIECES) + len(ranks), normalization)
        self.model = model
        # No special tokens: their text is text.
        self._encoding = tiktoken.Encoding(
            "byte_level_bpe", pat_str=expression, mergeable_ranks=ranks, special_tokens={}
        )
        self.is_byte, self.is_fallback = np.zeros((2, self.vocab_size), bool)
        for byte in range(BYTES):
            self.is_byte[ranks[bytes([byte])]] = True
            # Those of ASCII are characters.
            self.is_fallback[ranks[bytes([byte])]] = byte >= 0x80

    def __reduce__(self) -> tuple[type["ByteLevel"], tuple[bytes, str]]:
        return ByteLevel, (self.model, self.normalization)

    def encode(self, texts: Sequence[str], threads: int = 1) -> list[np.ndarray]:
        found = self._encoding.encode_ordinary_batch([self._normalise(text) for text in texts], num_threads=threads)
        return [np.array(ids, self.dtype) for ids in found]

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        return self._encoding.decode([number for number in np.asarray(ids).tolist() if number >= len(SPECIAL_PIECES)])

    def piece(self, number: int) -> str:
        if number < len(SPECIAL_PIECES):
            return SPECIAL_PIECES[number]
        return self._encoding.decode([number]).replace(" ", "\u2581")


def _byte_of() -> dict[str, int]:
    """The byte behind each letter of `tokenizer.json`: printable Latin-1 stands for itself, the rest follows U+0100 in order."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(BYTES) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + place): byte for place, byte in enumerate(others)}


_BYTE_OF = _byte_of()
