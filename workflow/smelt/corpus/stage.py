"""Make a corpus: sources → records → cleaned documents, each once → train, valid and test.

Reading is one pass in constant memory; cleaning, which takes the time, runs on the threads that the scheduler grants. The
documents and the card are the same for every number of threads.
"""

import functools
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from smelt.data.cleaning import clean
from smelt.data.collection import Collection, Tally, Written, check_not_empty
from smelt.data.formats import READERS
from smelt.data.formats.record import Record, text_in
from smelt.data.shingles import digest, signature
from smelt.data.sources import OpenSource
from smelt.data.split import SPLITS
from smelt.data.wikitext import plain_text
from smelt.data.workers import ordered_map
from smelt.plan.job import Job, Product, figure
from smelt.plan.manifest import to_json, write_atomically
from smelt.plan.settings.corpus import Corpus

DOCUMENTS_BETWEEN_LINES = 20_000
MEASURES = ("documents", "bytes", "characters", "words")


class Document(NamedTuple):
    """A record after all work that concerns it alone."""

    place: str
    title: str | None
    text: str
    dropped: str | None
    altered: Counter[str]
    digest: bytes
    signature: bytes


def run(job: Job) -> Product:
    """Make `train.jsonl.zst`, `valid.jsonl.zst`, `test.jsonl.zst` and `card.json`."""
    settings = Corpus.model_validate(job.settings)
    tally = Tally()
    collection = Collection(job.directory, settings.deduplication, settings.splits, settings.seed, "documents", tally)
    sources = [OpenSource(source) for source in settings.sources]
    records = _records(sources, settings, job)
    seen: set[bytes] = set()
    for document in ordered_map(functools.partial(_document, settings=settings), records, job.threads, _weight):
        tally.read += 1
        tally.altered.update(document.altered)
        if document.dropped or document.digest in seen:
            tally.drop(document.dropped or "exact copy", document.place)
        else:
            seen.add(document.digest)
            collection.add(_row(document), document.digest, document.signature)
        if tally.read % DOCUMENTS_BETWEEN_LINES == 0:
            job.say(f"{tally.read:,} documents read, {len(collection):,} kept")
        if settings.max_documents is not None and len(collection) >= settings.max_documents:
            break
    check_not_empty(collection, tally, "documents")
    written = collection.write()
    write_atomically(job.directory / "card.json", to_json(_card(sources, tally, written)))
    job.say(", ".join(f"{name}: {written.rows[name]:,} documents, {written.bytes[name]:,} bytes" for name in SPLITS))
    return Product([*(f"{name}.jsonl.zst" for name in SPLITS), "card.json"], _facts(tally, written))


def _records(sources: list[OpenSource], settings: Corpus, job: Job) -> Iterator[Record]:
    for source in sources:
        for entry in source.files(job):
            yield from READERS[settings.format](entry, settings)


def _weight(record: Record) -> int:
    return sum(len(value) for value in record.fields.values() if isinstance(value, str))


def _document(record: Record, settings: Corpus) -> Document:
    """Runs on any of the threads: depends on its arguments alone."""
    title = record.fields.get("title")
    title = title if isinstance(title, str) and title else None
    altered: Counter[str] = Counter()
    if record.dropped:
        return Document(record.place, title, "", record.dropped, altered, b"", b"")
    if settings.format == "mediawiki":
        text, altered = plain_text(
            record.fields["wikitext"], record.fields["prefixes"], settings.mediawiki.drop_sections
        )
    else:
        text = text_in(record, settings.text_key if settings.format in ("jsonl", "json") else "text")
    cleaned = clean(text, settings.cleaning)
    altered.update(cleaned.altered)
    if cleaned.dropped:
        return Document(record.place, title, "", cleaned.dropped, altered, b"", b"")
    near = settings.deduplication
    sketch = b"" if near.near == "ignore" else signature(cleaned.text, near.shingle, near.permutations, settings.seed)
    return Document(record.place, title, cleaned.text, None, altered, digest(cleaned.text), sketch)


def _row(document: Document) -> dict[str, Any]:
    title = {"title": document.title} if document.title else {}
    return {"id": document.digest.hex(), **title, "text": document.text, "origin": document.place}


def _card(sources: list[OpenSource], tally: Tally, written: Written) -> dict[str, Any]:
    return {
        "sources": [source.card() for source in sources],
        "read": tally.read,
        "dropped": tally.card(),
        "altered": dict(sorted(tally.altered.items())),
        "near copies": written.near,
        "splits": _by_split(written),
    }


def _by_split(written: Written) -> dict[str, dict[str, int]]:
    measures = {
        "documents": written.rows,
        "bytes": written.bytes,
        "characters": written.characters,
        "words": written.words,
    }
    return {split: {name: measure[split] for name, measure in measures.items()} for split in SPLITS}


def _facts(tally: Tally, written: Written) -> dict[str, Any]:
    splits = _by_split(written)
    figures = [
        figure(measure, split, splits[split][measure], measure)
        for split in SPLITS
        for measure in ("documents", "bytes")
    ]
    return {
        **{measure: {split: splits[split][measure] for split in SPLITS} for measure in MEASURES},
        "read": tally.read,
        "dropped": dict(sorted(tally.dropped.items())),
        "near copies": {"groups": written.near["groups"], "documents": written.near["rows in groups"]},
        "figures": figures,
    }
