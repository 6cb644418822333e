"""The task node's rows as examples for training and validation; what is cut or dropped is counted."""

from dataclasses import dataclass
from typing import Any

from smelt.data.batches import Examples
from smelt.data.classification import encode_texts, label_names, store_ending
from smelt.data.dialogue import check_tokenizer, encode_dialogues, store_template
from smelt.data.documents import read_documents
from smelt.plan.errors import DataError
from smelt.plan.manifest import Manifest
from smelt.plan.settings.finetuning import Finetuning


@dataclass(frozen=True)
class Data:
    kind: str
    """`classification` or `dialogue`."""
    labels: list[str]
    """Sorted; empty for dialogue."""
    train: Examples
    valid: Examples
    counts: dict[str, dict[str, int]]
    """By split: rows, examples, tokens, and what was cut or dropped."""


def read_examples(task: Manifest, tokenizer: Any, settings: Finetuning, max_length: int) -> Data:
    """Raises DataError for an empty split, a label that is missing in train, or when nothing fits `max_length`."""
    rows = {split: list(read_documents(task.file(f"{split}.jsonl.zst"))) for split in ("train", "valid")}
    if settings.max_train_rows:
        rows["train"] = rows["train"][: settings.max_train_rows]
    for split, found in rows.items():
        if not found:
            raise DataError(
                f"{task.path}: the {split} split has no row; give the task more rows or other shares of the splits"
            )
    kind = task.facts["kind"]
    if kind == "classification":
        return _classification(task, rows, tokenizer, max_length)
    if kind == "dialogue":
        return _dialogue(task, rows, tokenizer, max_length)
    raise DataError(f"{task.path}: its kind is {kind!r}; fine-tuning knows classification and dialogue")


def _classification(task: Manifest, rows: dict[str, list[Any]], tokenizer: Any, max_length: int) -> Data:
    where = str(task.path)
    labels = label_names([row["label"] for row in rows["train"]], f"{where}: the train split")
    if missing := sorted(set(task.facts["labels"]) - set(labels)):
        raise DataError(
            f"{where}: no row of the train split has the label {missing[0]!r}; give the task more rows or another split seed"
        )
    splits, counts = {}, {}
    for split, found in rows.items():
        texts = encode_texts(tokenizer, found, labels, max_length, where)
        splits[split] = Examples(texts)
        counts[split] = {**_sizes(found, splits[split]), "truncated": texts.truncated}
    store_ending(tokenizer)
    return Data("classification", labels, splits["train"], splits["valid"], counts)


def _dialogue(task: Manifest, rows: dict[str, list[Any]], tokenizer: Any, max_length: int) -> Data:
    check_tokenizer(tokenizer, str(task.path))
    store_template(tokenizer)
    splits, counts = {}, {}
    for split, found in rows.items():
        dialogues = encode_dialogues(tokenizer, found, max_length)
        if not dialogues.ids:
            raise DataError(
                f"{task.path}: none of the {len(found)} dialogues of the {split} split can be used with max_length {max_length} "
                f"({dict(dialogues.counts)}); raise finetuning's max_length (at most what the network can take)"
            )
        splits[split] = Examples(dialogues)
        counts[split] = {**_sizes(found, splits[split]), **dict(sorted(dialogues.counts.items()))}
    return Data("dialogue", [], splits["train"], splits["valid"], counts)


def _sizes(rows: list[Any], examples: Examples) -> dict[str, int]:
    return {"rows": len(rows), "examples": len(examples), "tokens": int(examples.lengths.sum())}
