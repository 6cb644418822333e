"""Text to token ids and back, for every kind of tokenizer: `Encoder.load(tokenizer_manifest)` gives the one that a node holds."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from smelt.data.shard import token_type
from smelt.plan.errors import DataError
from smelt.plan.manifest import Manifest

PAD, BOS, EOS, UNK = range(4)
"""Ids of the special pieces in every tokenizer; beginning and end are added by whoever frames a text, never by the encoder."""
SPECIAL_PIECES = ("<pad>", "<s>", "</s>", "<unk>")
BATCH = 2**22
"""Characters encoded at once. Their ids are Python integers for a while, some ten times the text in memory."""


def normaliser(name: str) -> Callable[[str], str]:
    """What the setting `normalization` does to a text. NFKC is that of `tokenizers`, which the export uses: SentencePiece's own
    leaves combining marks in the order in which it finds them."""
    if name == "identity":
        return str
    from tokenizers import normalizers

    return {"nfkc": normalizers.NFKC()}[name].normalize_str


class Encoder(ABC):
    """A trained tokenizer. Picklable; the ids do not depend on the number of threads."""

    library: str
    """What encodes, by the name of its distribution."""
    is_byte: np.ndarray
    """[vocab_size] bool: the pieces that stand for single bytes."""
    is_fallback: np.ndarray
    """[vocab_size] bool: those of them that tell of a character without a piece of its own."""

    def __init__(self, vocab_size: int, normalization: str) -> None:
        """Texts are first normalised as the training text was."""
        self.vocab_size, self.normalization = vocab_size, normalization
        self.dtype = token_type(vocab_size)
        self._normalise = normaliser(normalization)

    @staticmethod
    def load(tokenizer: Manifest) -> "Encoder":
        """Of a tokenizer node. Raises DataError naming the file if it is missing, cut off or no model."""
        # Imported here, since both are built on this module.
        if tokenizer.settings["kind"] == "byte_level_bpe":
            from smelt.data.byte_level import ByteLevel as Kind
        else:
            from smelt.data.sentence_pieces import SentencePieces as Kind
        path = tokenizer.file(Kind.FILE)
        try:
            return Kind(path.read_bytes(), tokenizer.settings["normalization"])
        except DataError as error:
            raise DataError(f"{path}: {error}; delete {tokenizer.path} and run snakemake again") from None

    @abstractmethod
    def encode(self, texts: Sequence[str], threads: int = 1) -> list[np.ndarray]:
        """The ids of each text, without special tokens: [tokens] of `dtype` each."""

    @abstractmethod
    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """The text of the ids. `<pad>`, `<s>` and `</s>` leave nothing; bytes that are no UTF-8 become U+FFFD."""

    @abstractmethod
    def piece(self, number: int) -> str:
        """The text of a piece, `▁` standing for a space."""

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
