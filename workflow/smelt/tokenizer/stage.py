"""Train a tokenizer on the corpus's train split, export it for transformers, and prove that both give the same ids.

Leaves `tokenizer.model` (SentencePiece), `hf/` (a Hugging Face fast tokenizer) and `card.json`.
"""

from collections.abc import Iterator
from typing import Any

from smelt.data.documents import read_documents
from smelt.data.encoder import BOS, EOS, PAD, UNK, Encoder, normaliser
from smelt.plan.errors import DataError
from smelt.plan.job import Job, Product
from smelt.plan.manifest import Manifest, to_json, write_atomically
from smelt.plan.settings.tokenizer import Tokenizer
from smelt.tokenizer.card import card, count, figures
from smelt.tokenizer.sample import draw, lines

PROVEN_BYTES = 500_000
"""Of the valid split, on which the export is compared with the model; tests/tokenizer does so on far more."""


def run(job: Job) -> Product:
    settings, corpus = Tokenizer.model_validate(job.settings), job.input("corpus")
    encoder, trained_on = _trained(job, settings, corpus)
    write_atomically(job.directory / "tokenizer.model", encoder.model)
    _export(job, settings, encoder, corpus)
    counts = {"valid": count(encoder, read_documents(corpus.file("valid.jsonl.zst")), job.threads)}
    write_atomically(job.directory / "card.json", to_json(card(encoder, counts, trained_on)))
    rates = counts["valid"].rates()
    job.say(f"{rates['tokens_per_word']:.3f} tokens a word, {rates['bytes_per_token']:.3f} bytes a token on valid")
    exported = [f"hf/{path.name}" for path in (job.directory / "hf").iterdir()]
    facts = {
        "kind": settings.kind,
        "vocab_size": encoder.vocab_size,
        "special_tokens": {"pad": PAD, "bos": BOS, "eos": EOS, "unk": UNK},
        "figures": figures(counts),
    }
    return Product(["tokenizer.model", "card.json", *exported], facts)


def _trained(job: Job, settings: Tokenizer, corpus: Manifest) -> tuple[Encoder, dict[str, Any]]:
    """The encoder, and what the sample was. Raises DataError if this text can't fill the vocabulary."""
    # Imported here: SentencePiece's protocol takes half a second that loading a finished model does not need.
    from smelt.tokenizer.training import train

    sample, documents = draw(_texts(corpus, "train"), settings.max_train_bytes, settings.seed)
    size = sum(len(text.encode()) for text in sample)
    job.say(
        f"training {settings.kind}, {settings.vocab_size:,} pieces, on {len(sample):,} of {documents:,} documents ({size / 1e6:,.1f} MB)"
    )
    try:
        encoder = Encoder(
            train(lines(map(normaliser(settings.normalization), sample)), settings), settings.normalization
        )
    except DataError as error:
        raise DataError(f"tokenizer {job.id}: {error} (corpus {corpus.id})") from error.__cause__
    return encoder, {"documents": len(sample), "of_documents": documents, "bytes": size}


def _export(job: Job, settings: Tokenizer, encoder: Encoder, corpus: Manifest) -> None:
    from smelt.tokenizer.export import save
    from smelt.tokenizer.parity import prove

    save(encoder, job.directory / "hf")
    lossless = settings.normalization == "identity" and settings.byte_fallback
    prove(job.directory / "hf", encoder, _some(_texts(corpus, "valid"), PROVEN_BYTES), lossless)


def _texts(corpus: Manifest, split: str) -> Iterator[str]:
    return (row["text"] for row in read_documents(corpus.file(f"{split}.jsonl.zst")))


def _some(texts: Iterator[str], size: int) -> Iterator[str]:
    """Texts until `size` characters are reached; the last one is cut."""
    for text in texts:
        yield text[:size]
        size -= len(text)
        if size <= 0:
            return
