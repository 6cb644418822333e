"""Text to token ids and back, exactly as the trained SentencePiece model does, and with every text kept.

Two characters need care. `▁` (U+2581) stands for the space within SentencePiece, so that a literal one would come back as
a space: here it becomes the three bytes of its UTF-8. And texts are encoded line by line, which spreads a long document over
the threads, bounds memory, and keeps the 32-bit sums of a unigram model exact (`smelt.tokenizer.training`); no piece holds a
line break together with anything else, so the ids are those of the whole text.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import sentencepiece

from smelt.data.shard import token_type
from smelt.plan.errors import DataError
from smelt.plan.manifest import Manifest

PAD, BOS, EOS, UNK = range(4)
"""Ids of `<pad>`, `<s>`, `</s>` and `<unk>` in every tokenizer; beginning and end are added by whoever frames a text, never by the encoder."""

SPACE = "\u2581"
UNKNOWN = "\u2585"
"""Reserved by SentencePiece, so never in a vocabulary."""
BATCH = 2**22
"""Characters encoded at once. Their ids are Python integers for a while, some ten times the text in memory."""
_SEPARATOR = re.compile(f"(\n|{SPACE})")


def normaliser(name: str) -> Callable[[str], str]:
    """What the setting `normalization` does to a text. NFKC is that of `tokenizers`, which the export uses: SentencePiece's own
    leaves combining marks in the order in which it finds them."""
    if name == "identity":
        return str
    from tokenizers import normalizers

    return {"nfkc": normalizers.NFKC()}[name].normalize_str


class Encoder:
    """A SentencePiece model. Picklable; the ids do not depend on the number of threads."""

    def __init__(self, model: bytes, normalization: str = "identity") -> None:
        """`model` is a serialised ModelProto; texts are first normalised as its training text was. Raises DataError if it is no model."""
        self.model, self.normalization = model, normalization
        self._normalise = normaliser(normalization)
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError as error:
            raise DataError(f"not a SentencePiece model ({error})") from None
        self.vocab_size: int = self._processor.get_piece_size()
        self.dtype = token_type(self.vocab_size)
        self.byte_fallback: bool = self._processor.is_byte(self._processor.piece_to_id("<0x0A>"))
        self._joints = {"\n": self._bytes("\n"), SPACE: self._bytes(SPACE)}

    @classmethod
    def load(cls, tokenizer: Manifest) -> "Encoder":
        """Of a tokenizer node. Raises DataError naming the file if it is missing, cut off or no model."""
        path = tokenizer.file("tokenizer.model")
        try:
            return cls(path.read_bytes(), tokenizer.settings["normalization"])
        except DataError as error:
            raise DataError(f"{path}: {error}; delete {tokenizer.path} and run snakemake again") from None

    def __reduce__(self) -> tuple[type["Encoder"], tuple[bytes, str]]:
        return Encoder, (self.model, self.normalization)

    def encode(self, texts: Sequence[str], threads: int = 1) -> list[np.ndarray]:
        """The ids of each text, without special tokens: [tokens] of `dtype` each."""
        parts: list[str] = []
        # Per text, what stands between its parts: line breaks, unless the text holds a literal `▁`.
        separators: list[list[str] | int] = []
        for text in map(self._normalise, texts):
            if SPACE in text and self.byte_fallback:
                pieces = _SEPARATOR.split(text)
                parts.extend(pieces[::2])
                separators.append(pieces[1::2])
            else:
                lines = text.replace(SPACE, UNKNOWN).split("\n")
                parts.extend(lines)
                separators.append(len(lines) - 1)
        encoded = iter(self._processor.encode(parts, num_threads=threads))
        return [self._joined(encoded, between) for between in separators]

    def encode_documents(
        self, rows: Iterable[dict[str, Any]], threads: int = 1
    ) -> Iterator[tuple[dict[str, Any], np.ndarray]]:
        """Each row with the ids of its `text`, in order; memory for one batch."""
        batch: list[dict[str, Any]] = []
        held = 0
        for row in rows:
            batch.append(row)
            held += len(row["text"])
            if held >= BATCH:
                yield from zip(batch, self.encode([row["text"] for row in batch], threads), strict=True)
                batch, held = [], 0
        yield from zip(batch, self.encode([row["text"] for row in batch], threads), strict=True)

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """The text of the ids. `<pad>`, `<s>` and `</s>` leave nothing; bytes that are no UTF-8 become U+FFFD."""
        return self._processor.decode(np.asarray(ids).tolist())

    def piece(self, number: int) -> str:
        """The text of a piece, `▁` standing for a space."""
        return self._processor.id_to_piece(number)

    @cached_property
    def is_byte(self) -> np.ndarray:
        """[vocab_size] bool: the pieces that stand for single bytes."""
        return np.array([self._processor.is_byte(number) for number in range(self.vocab_size)])

    @property
    def newline(self) -> int:
        """The id of a line break."""
        return self._joints["\n"][0]

    def _joined(self, encoded: Iterator[list[int]], between: list[str] | int) -> np.ndarray:
        ids = list(next(encoded))
        for separator in ["\n"] * between if isinstance(between, int) else between:
            ids += self._joints[separator]
            ids += next(encoded)
        return np.array(ids, self.dtype)

    def _bytes(self, text: str) -> list[int]:
        """The ids of `text` byte by byte, or of its own piece where the model has no bytes."""
        if self.byte_fallback:
            return [self._processor.piece_to_id(f"<0x{byte:02X}>") for byte in text.encode()]
        return [self._processor.piece_to_id(text)]
