"""The trained model as a Hugging Face fast tokenizer with the same ids.

A byte-level BPE is one as it is trained. A SentencePiece model is built piece by piece: transformers' own conversions get runs of
spaces, tabs or bytes wrong (facts in docs/tokenizer.md). The pieces stand with a real space in place of `▁`, which frees the
literal `▁` to become bytes as in `smelt.data.sentence_pieces`. There is no pre-tokenizer: like SentencePiece, the model sees the
whole text.
"""

from pathlib import Path
from typing import Any

import tokenizers
from sentencepiece import sentencepiece_model_pb2 as protocol
from tokenizers import decoders, models, normalizers

from smelt.data.encoder import BOS, EOS, PAD, SPECIAL_PIECES, UNK
from smelt.data.sentence_pieces import SPACE, SentencePieces

NORMAL = protocol.ModelProto.SentencePiece.NORMAL
NEVER = -1e5
"""Score of special and byte pieces in a unigram model: below any way to spell them, which SentencePiece always takes."""


def save(built: tokenizers.Tokenizer, directory: Path) -> None:
    """Write `tokenizer.json` and the configuration beside it, for `AutoTokenizer.from_pretrained(directory)`."""
    from transformers import PreTrainedTokenizerFast

    PreTrainedTokenizerFast(
        tokenizer_object=built,
        pad_token=SPECIAL_PIECES[PAD],
        bos_token=SPECIAL_PIECES[BOS],
        eos_token=SPECIAL_PIECES[EOS],
        unk_token=SPECIAL_PIECES[UNK],
        # A literal "</s>" in a text is text. Who frames text (a chat template, say) adds ids, or asks for the other way.
        split_special_tokens=True,
        # GPT-2 would take token types as ids of words, and add their embeddings.
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
        padding_side="right",
    ).save_pretrained(directory)


def fast(encoder: SentencePieces) -> tokenizers.Tokenizer:
    """A SentencePiece model within the `tokenizers` library."""
    proto = protocol.ModelProto.FromString(encoder.model)
    pieces = [(piece.piece.replace(SPACE, " "), piece.score, piece.type) for piece in proto.pieces]
    trainer = proto.trainer_spec
    if trainer.model_type == protocol.TrainerSpec.UNIGRAM:
        scores = [(text, score if kind == NORMAL else NEVER) for text, score, kind in pieces]
        built = tokenizers.Tokenizer(models.Unigram(scores, unk_id=UNK, byte_fallback=trainer.byte_fallback))
    else:
        vocabulary = {text: number for number, (text, _, _) in enumerate(pieces)}
        built = tokenizers.Tokenizer(
            models.BPE(
                vocabulary,
                _merges([text for text, _, kind in pieces if kind == NORMAL]),
                unk_token=pieces[UNK][0],
                fuse_unk=True,
                byte_fallback=trainer.byte_fallback,
            )
        )
    if encoder.normalization == "nfkc":
        built.normalizer = normalizers.NFKC()
    steps: list[Any] = [decoders.ByteFallback()] if trainer.byte_fallback else []
    built.decoder = decoders.Sequence([*steps, decoders.Fuse()])
    return built


def _merges(pieces: list[str]) -> list[tuple[str, str]]:
    """Every way to put a piece together from two others, in the order of the pieces, which is the order in which SentencePiece merges."""
    known = set(pieces)
    return [
        (piece[:cut], piece[cut:])
        for piece in pieces
        for cut in range(1, len(piece))
        if piece[:cut] in known and piece[cut:] in known
    ]
