"""Training of a byte-level BPE with `tokenizers`. Its merges do not depend on threads or hashing: pairs that occur equally often are
merged in the order of their ids, and the 256 bytes come first, in the order of their letters."""

import os
from collections.abc import Iterable

from smelt.data.byte_level import DIGITS, WORDS
from smelt.data.encoder import SPECIAL_PIECES
from smelt.plan.errors import DataError
from smelt.plan.settings.tokenizer import Tokenizer
from smelt.tokenizer.child import in_child

LEAST = 2
"""Times that a pair must occur to be merged: of what stands once nothing can be learnt."""


def train(texts: Iterable[str], settings: Tokenizer, threads: int) -> bytes:
    """A `tokenizer.json`. Raises DataError if there is no text, or not enough to fill the vocabulary."""
    sample = [text for text in texts if text]
    if not sample:
        raise DataError("the train split holds no text to train on; look at the card of the corpus")
    model, size = in_child(_train, sample, settings, threads)
    if size < settings.vocab_size:
        raise DataError(
            f"vocab_size {settings.vocab_size} is more than this text can fill: {size} pieces at most. "
            f"Set vocab_size to {size} or less, or take more text"
        )
    return model


def _train(sample: list[str], settings: Tokenizer, threads: int) -> tuple[bytes, int]:
    # Read by the library when it is first used: as many threads as the scheduler granted.
    os.environ.update(RAYON_NUM_THREADS=str(threads), TOKENIZERS_PARALLELISM="true")
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    built = Tokenizer(models.BPE())
    expression = Regex(DIGITS if settings.split_digits else WORDS)
    built.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(expression, "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=settings.vocab_size,
        min_frequency=LEAST,
        # The library's bound is one above the longest piece.
        max_token_length=settings.max_piece_length + 1,
        special_tokens=list(SPECIAL_PIECES),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    built.train_from_iterator(sample, trainer)
    # Set when all is trained: the sample comes normalised.
    if settings.normalization == "nfkc":
        built.normalizer = normalizers.NFKC()
    built.decoder = decoders.ByteLevel()
    return built.to_str().encode(), built.get_vocab_size()
