"""Train a tokenizer on the corpus's train split, export it for transformers, and prove that both give the same ids.

Leaves `hf/` (a Hugging Face fast tokenizer), `card.json` and, of the SentencePiece kinds, `tokenizer.model`.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from smelt.data.byte_level import ByteLevel
from smelt.data.documents import read_documents
from smelt.data.encoder import BOS, EOS, PAD, UNK, Encoder, normaliser
from smelt.data.sentence_pieces import SentencePieces
from smelt.plan.errors import DataError
from smelt.plan.job import Job, Product
from smelt.plan.manifest import Manifest, to_json, write_atomically
from smelt.plan.settings.tokenizer import Tokenizer
from smelt.tokenizer.card import card, count, figures
from smelt.tokenizer.sample import draw, lines

if TYPE_CHECKING:
    import tokenizers

PROVEN_BYTES = 500_000
"""Of the valid split, on which the export is compared with the model; tests/tokenizer does so on far more."""


def run(job: Job) -> Product:
    settings, corpus = Tokenizer.model_validate(job.settings), job.input("corpus")
    sample, trained_on = _sample(job, settings, corpus)
    try:
        encoder, exported = (
            _byte_level(job, settings, sample)
            if settings.kind == "byte_level_bpe"
            else _sentence_pieces(settings, sample)
        )
    except DataError as error:
        raise DataError(f"tokenizer {job.id}: {error} (corpus {corpus.id})") from error.__cause__
    _export(job, settings, encoder, exported, corpus)
    counts = {"valid": count(encoder, read_documents(corpus.file("valid.jsonl.zst")), job.threads)}
    write_atomically(job.directory / "card.json", to_json(card(encoder, counts, trained_on)))
    rates = counts["valid"].rates()
    job.say(f"{rates['tokens_per_word']:.3f} tokens a word, {rates['bytes_per_token']:.3f} bytes a token on valid")
    files = [f"hf/{path.name}" for path in (job.directory / "hf").iterdir()]
    if isinstance(encoder, SentencePieces):
        write_atomically(job.directory / encoder.FILE, encoder.model)
        files.append(encoder.FILE)
    facts = {
        "kind": settings.kind,
        "vocab_size": encoder.vocab_size,
        "special_tokens": {"pad": PAD, "bos": BOS, "eos": EOS, "unk": UNK},
        "figures": figures(counts),
    }
    return Product(["card.json", *files], facts)


def _sample(job: Job, settings: Tokenizer, corpus: Manifest) -> tuple[list[str], dict[str, Any]]:
    """The texts to train on, normalised, and how many there are of how many."""
    sample, documents = draw(_texts(corpus, "train"), settings.max_train_bytes, settings.seed)
    size = sum(len(text.encode()) for text in sample)
    job.say(
        f"training {settings.kind}, {settings.vocab_size:,} pieces, on {len(sample):,} of {documents:,} documents ({size / 1e6:,.1f} MB)"
    )
    about = {"documents": len(sample), "of_documents": documents, "bytes": size}
    return list(map(normaliser(settings.normalization), sample)), about


def _sentence_pieces(settings: Tokenizer, sample: list[str]) -> tuple[SentencePieces, "tokenizers.Tokenizer"]:
    # Imported here: SentencePiece's protocol takes half a second that loading a finished model does not need.
    from smelt.tokenizer.export import fast
    from smelt.tokenizer.training import train

    encoder = SentencePieces(train(lines(sample), settings), settings.normalization)
    return encoder, fast(encoder)


def _byte_level(job: Job, settings: Tokenizer, sample: list[str]) -> tuple[ByteLevel, "tokenizers.Tokenizer"]:
    import tokenizers

    from smelt.tokenizer.byte_level import train

    model = train(sample, settings, job.threads)
    return ByteLevel(model, settings.normalization), tokenizers.Tokenizer.from_buffer(model)


def _export(
    job: Job, settings: Tokenizer, encoder: Encoder, exported: "tokenizers.Tokenizer", corpus: Manifest
) -> None:
    from smelt.tokenizer.export import save
    from smelt.tokenizer.parity import prove

    save(exported, job.directory / "hf")
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
