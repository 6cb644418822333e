"""The encoder of a SentencePiece model: its ids, with every text kept.

Two characters need care. `▁` (U+2581) stands for the space within SentencePiece, so that a literal one would come back as
a space: here it becomes the three bytes of its UTF-8. And texts are encoded line by line, which spreads a long document over
the threads, bounds memory, and keeps the 32-bit sums of a unigram model exact (`smelt.tokenizer.training`); no piece holds a
line break together with anything else, so the ids are those of the whole text.
"""

import re
from collections.abc import Iterator, Sequence

import numpy as np
import sentencepiece

from smelt.data.encoder import Encoder
from smelt.plan.errors import DataError

SPACE = "\u2581"
UNKNOWN = "\u2585"
"""Reserved by SentencePiece, so never in a vocabulary."""
_SEPARATOR = re.compile(f"(\n|{SPACE})")


class SentencePieces(Encoder):
    """A SentencePiece model, `bpe` or `unigram`."""

    FILE = "tokenizer.model"
    library = "sentencepiece"

    def __init__(self, model: bytes, normalization: str = "identity") -> None:
        """`model` is a serialised ModelProto. Raises DataError if it is no model."""
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError as error:
            raise DataError(f"not a SentencePiece model ({error})") from None
        super().__init__(self._processor.get_piece_size(), normalization)
        self.model = model
        self.byte_fallback: bool = self._processor.is_byte(self._processor.piece_to_id("<0x0A>"))
        self._joints = {"\n": self._bytes("\n"), SPACE: self._bytes(SPACE)}
        self.is_byte = np.array([self._processor.is_byte(number) for number in range(self.vocab_size)])
        # The line break, a byte in every model with bytes, is no fallback.
        self.is_fallback = self.is_byte.copy()
        self.is_fallback[self.newline] = False

    def __reduce__(self) -> tuple[type["SentencePieces"], tuple[bytes, str]]:
        return SentencePieces, (self.model, self.normalization)

    def encode(self, texts: Sequence[str], threads: int = 1) -> list[np.ndarray]:
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

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        return self._processor.decode(np.asarray(ids).tolist())

    def piece(self, number: int) -> str:
        return self._processor.id_to_piece(number)

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
