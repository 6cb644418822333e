"""Tokenizers: how text becomes tokens."""

from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from smelt.plan.settings.base import Settings

SPECIAL_PIECES = 4
"""<pad>, <s>, </s> and <unk>, the first four ids of every tokenizer."""
BYTE_PIECES = 256
OF_SENTENCEPIECE = ("character_coverage", "byte_fallback", "num_threads")
"""Settings that have no say in a byte-level BPE."""


class Tokenizer(Settings):
    """A tokenizer trained on the corpus's train split, and its Hugging Face export with the same ids."""

    kind: Literal["bpe", "unigram", "byte_level_bpe"] = "bpe"
    """Subword algorithm. `bpe` and `unigram` are SentencePiece models (Kudo & Richardson 2018, https://arxiv.org/abs/1808.06226): `bpe` trains faster; `unigram` (Kudo 2018, https://arxiv.org/abs/1804.10959) encodes faster and takes much longer to train. `byte_level_bpe` is that of GPT-2: text is cut into words first, and the pieces are of bytes."""
    vocab_size: PositiveInt = 32_000
    """Pieces in all: four special ones, 256 bytes (`byte_fallback`), the characters, and what is learnt. A small corpus may not hold so many: the error then says how many fit."""
    character_coverage: Annotated[float, Field(ge=0.98, le=1.0)] = 0.9995
    """Share of the characters of the sample that must have a piece of their own. The rarest rest becomes bytes. 1.0 for a small alphabet, 0.9995 for Chinese or for text with words from many scripts. Not for `byte_level_bpe`."""
    byte_fallback: bool = True
    """A character without a piece becomes the bytes of its UTF-8, so that any text comes back exactly. Off: it becomes <unk> and is lost. Pieces of `byte_level_bpe` are of bytes anyway."""
    normalization: Literal["identity", "nfkc"] = "identity"
    """What is done to text before it is cut: nothing, or NFKC (fullwidth letters become plain ones, U+3000 a space). Only `identity` gives the text back as it was."""
    split_digits: bool = False
    """Every digit is a piece of its own, as in Llama."""
    max_piece_length: Annotated[int, Field(ge=1, le=512)] = 16
    """Longest piece in characters, or in bytes with `byte_level_bpe`."""
    max_train_bytes: PositiveInt = 100_000_000
    """Bound on the text that training sees. Of a larger train split a random sample of documents is taken; memory is about ten times this."""
    num_threads: PositiveInt = 1
    """Threads of the training. A setting and not a resource: SentencePiece gives other ids for other counts. Not for `byte_level_bpe`, which gives the same for all."""
    seed: NonNegativeInt = 42
    """Of the sample."""

    @model_validator(mode="after")
    def _keys_fit_the_kind(self) -> "Tokenizer":
        if self.kind == "byte_level_bpe":
            for name in OF_SENTENCEPIECE:
                if getattr(self, name) != Tokenizer.model_fields[name].default:
                    raise ValueError(
                        f"{name} has no say in kind: byte_level_bpe, whose pieces are of bytes: leave it out"
                    )
        return self

    @model_validator(mode="after")
    def _room_for_more_than_the_fixed_pieces(self) -> "Tokenizer":
        fixed = SPECIAL_PIECES + BYTE_PIECES * self.byte_fallback
        if self.vocab_size <= fixed:
            raise ValueError(
                f"vocab_size {self.vocab_size} leaves no room beside the {fixed} fixed pieces: set it well above {fixed}"
            )
        return self
