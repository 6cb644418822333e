"""Make a task: sources → labelled rows or dialogue, each once → train, valid and test, without near copies across them.

Rows of a classification: `{"id", "text", "label", "origin"}`; of dialogue: `{"id", "messages": [{"role", "content"}, …], "origin"}`.
"""

from collections import Counter
from typing import Any

from pydantic import TypeAdapter

from smelt.data.collection import Collection, Tally, Written, check_not_empty, text_of
from smelt.data.shingles import signature
from smelt.data.sources import OpenSource
from smelt.data.split import SPLITS
from smelt.plan.errors import DataError
from smelt.plan.job import Job, Product, figure
from smelt.plan.manifest import to_json, write_atomically
from smelt.plan.settings.task import Classification, Dialogue, Task
from smelt.task.classification import LabelledRow, LabelledRows
from smelt.task.dialogue import DialogueRow, DialogueRows
from smelt.task.sample import Sample


def run(job: Job) -> Product:
    """Make `train.jsonl.zst`, `valid.jsonl.zst`, `test.jsonl.zst` and `card.json`."""
    settings: Classification | Dialogue = TypeAdapter(Task).validate_python(job.settings)
    tally = Tally()
    sources = [OpenSource(source) for source in settings.sources]
    collection = Collection(job.directory, settings.deduplication, settings.splits, settings.seed, "rows", tally)
    if isinstance(settings, Classification):
        _collect_labelled(job, settings, sources, collection, tally)
    else:
        _collect_dialogue(job, settings, sources, collection, tally)
    check_not_empty(collection, tally, "rows")
    written = collection.write()
    labels = sorted(set().union(*written.labels.values()))
    if settings.kind == "classification":
        _check_labels(written, labels)
    write_atomically(job.directory / "card.json", to_json(_card(sources, tally, written)))
    job.say(", ".join(f"{name}: {written.rows[name]:,} rows" for name in SPLITS))
    facts = {
        "kind": settings.kind,
        "labels": labels,
        "rows": written.rows,
        "rows by label": {split: dict(sorted(counts.items())) for split, counts in written.labels.items()},
        "dropped": dict(sorted(tally.dropped.items())),
        "figures": [figure("rows", split, written.rows[split], "rows") for split in SPLITS],
    }
    return Product([*(f"{name}.jsonl.zst" for name in SPLITS), "card.json"], facts)


def _collect_labelled(
    job: Job, settings: Classification, sources: list[OpenSource], collection: Collection, tally: Tally
) -> None:
    rows = LabelledRows(settings, tally)
    sample: Sample[LabelledRow] = Sample(settings.max_rows, settings.seed)
    for source in sources:
        for entry in source.files(job):
            for row in rows.read(entry):
                sample.add(row.digest, [row])
    # A text may turn out to be disputed after its first copy was drawn.
    for row in sample.rows():
        _add(
            collection,
            settings,
            {"id": row.digest.hex(), "text": row.text, "label": row.label, "origin": row.place},
            row.digest,
            None,
        )
    for digest in rows.disputed:
        collection.leave_out(digest)


def _collect_dialogue(
    job: Job, settings: Dialogue, sources: list[OpenSource], collection: Collection, tally: Tally
) -> None:
    reader = DialogueRows(settings, tally)
    sample: Sample[DialogueRow] = Sample(settings.max_rows, settings.seed)
    for source in sources:
        for entry in source.files(job):
            for rows in reader.read(entry):
                if rows:
                    sample.add(rows[0].digest, rows)
    for row in sample.rows():
        messages = [
            {"role": ("user", "assistant")[turn % 2], "content": said.text} for turn, said in enumerate(row.turns)
        ]
        _add(
            collection,
            settings,
            {"id": row.digest.hex(), "messages": messages, "origin": row.place},
            row.digest,
            row.place,
        )


def _add(
    collection: Collection, settings: Classification | Dialogue, row: dict[str, Any], digest: bytes, unit: str | None
) -> None:
    near = settings.deduplication
    sketch = b"" if near.near == "ignore" else signature(text_of(row), near.shingle, near.permutations, settings.seed)
    collection.add(row, digest, sketch, unit)


def _check_labels(written: Written, labels: list[str]) -> None:
    """Raises DataError for a label that is held out but never trained on, and for a task with a single label."""
    if len(labels) < 2:
        raise DataError(f"there is but one label, {labels[0]!r}: nothing can be learned; check `label`")
    for split in SPLITS[1:]:
        if missing := sorted(set(written.labels[split]) - set(written.labels["train"])):
            counts = Counter(written.labels["train"])
            raise DataError(
                f"label {missing[0]!r} is in {split} but not in train, which has {', '.join(f'{name!r} {count:,}' for name, count in sorted(counts.items()))}. "
                "Take more data, lower splits.valid and splits.test, take another seed, or leave the label out"
            )


def _card(sources: list[OpenSource], tally: Tally, written: Written) -> dict[str, Any]:
    return {
        "sources": [source.card() for source in sources],
        "read": tally.read,
        "dropped": tally.card(),
        "altered": dict(sorted(tally.altered.items())),
        "near copies": written.near,
        "splits": {
            split: {
                "rows": written.rows[split],
                "bytes": written.bytes[split],
                "labels": dict(sorted(written.labels[split].items())),
            }
            for split in SPLITS
        },
    }
