"""Training of a SentencePiece model, reproducible to the byte.

What is pinned: the thread count (a setting), the order of the lines, in-memory input and output, so that no path enters the
model, and every option that has a say. Identity normalisation, no added space in front, white space kept: text comes back exactly.
"""

import io
import re
from collections.abc import Iterable
from typing import Any

import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as protocol

from smelt.data.encoder import BOS, EOS, PAD, UNK
from smelt.plan.errors import DataError
from smelt.plan.settings.tokenizer import Tokenizer
from smelt.tokenizer.child import in_child

SCORE_STEP = 2.0**-7
"""Unigram scores are rounded to this. SentencePiece adds them up in 32 bits, `tokenizers` in 64; of such numbers both sums are exact
up to 131,072, some ten thousand pieces, so that the two never choose differently, and a tie is a tie in both."""
_TOO_LARGE = re.compile(r"Vocabulary size too high \(\d+\)\. Please set it to a value <= (\d+)")
_TOO_SMALL = re.compile(r"Vocabulary size is smaller than required_chars\. \d+ vs (\d+)")
_LITERALS = "".join(sorted(set("<pad><s></s><unk><0x0123456789ABCDEF>")))


def train(lines: Iterable[str], settings: Tokenizer) -> bytes:
    """A serialised ModelProto. Raises DataError if the text can't fill the vocabulary, or its characters alone overfill it."""
    try:
        trained = in_child(_train, list(lines), _options(settings))
    except RuntimeError as error:
        raise _explained(error, settings.vocab_size) from error
    return _rounded(trained) if settings.kind == "unigram" else trained


def _options(settings: Tokenizer) -> dict[str, Any]:
    # Without bytes the line break needs a piece. Unigram must be able to spell the special pieces, so that `tokenizers`,
    # whose unigram model finds them in text, never takes one for the cheaper way (smelt.tokenizer.export).
    required = ("" if settings.byte_fallback else "\n") + (_LITERALS if settings.kind == "unigram" else "")
    return {
        "model_type": settings.kind,
        "vocab_size": settings.vocab_size,
        "character_coverage": settings.character_coverage,
        "byte_fallback": settings.byte_fallback,
        # Texts come normalised (smelt.data.encoder).
        "normalization_rule_name": "identity",
        "split_digits": settings.split_digits,
        "max_sentencepiece_length": settings.max_piece_length,
        "num_threads": settings.num_threads,
        "required_chars": required,
        "remove_extra_whitespaces": False,
        "add_dummy_prefix": False,
        # Runs of spaces, as in code, get pieces.
        "allow_whitespace_only_pieces": True,
        # The lines are cut before they get here.
        "max_sentence_length": 2**24,
        "shuffle_input_sentence": False,
        "pad_id": PAD,
        "bos_id": BOS,
        "eos_id": EOS,
        "unk_id": UNK,
        "pad_piece": "<pad>",
        "minloglevel": 2,
    }


def _train(lines: list[str], options: dict[str, Any]) -> bytes:
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=written, **options)
    return written.getvalue()


def _explained(error: RuntimeError, vocab_size: int) -> DataError:
    """SentencePiece's error in terms of the settings."""
    text = str(error)
    if found := _TOO_LARGE.search(text):
        return DataError(
            f"vocab_size {vocab_size} is more than this text can fill: {found[1]} pieces at most. "
            f"Set vocab_size to {found[1]} or less, or take more text"
        )
    if found := _TOO_SMALL.search(text):
        return DataError(
            f"vocab_size {vocab_size} is too small: the special pieces, bytes and single characters of this text take {found[1]}. "
            f"Set vocab_size well above {found[1]}, or lower character_coverage (0.98 at least; with byte_fallback rare characters become bytes)"
        )
    if "sentences_.empty()" in text:
        return DataError("the train split holds no text to train on; look at the card of the corpus")
    return DataError(f"SentencePiece could not train on this text: {text}")


def _rounded(model: bytes) -> bytes:
    """The same model with scores that are multiples of `SCORE_STEP`."""
    proto = protocol.ModelProto.FromString(model)
    for piece in proto.pieces:
        piece.score = round(piece.score / SCORE_STEP) * SCORE_STEP
    return proto.SerializeToString(deterministic=True)
