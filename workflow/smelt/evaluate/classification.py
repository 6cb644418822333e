"""Accuracy, macro-F1 and confusion of a fine-tuned classifier, beside the majority class and TF-IDF with logistic regression."""

from typing import TYPE_CHECKING, Any

import numpy as np

from smelt.data.batches import Examples
from smelt.data.classification import encode_texts
from smelt.data.documents import read_documents, write_documents
from smelt.evaluate.references import Split, majority, tfidf_logistic
from smelt.evaluate.scores import confusion, label_figures
from smelt.models.loading import load_finetuned, load_tokenizer
from smelt.models.scoring import label_logits
from smelt.plan.errors import DataError
from smelt.plan.job import Job, Product
from smelt.plan.manifest import Manifest
from smelt.plan.settings.evaluate import Evaluate

if TYPE_CHECKING:
    import torch


def evaluate(job: Job, settings: Evaluate, device: "torch.device") -> Product:
    finetune, task = job.input("finetune"), job.input("task")
    labels: list[str] = finetune.facts["labels"]
    rows = list(read_documents(task.file("test.jsonl.zst")))[: settings.max_test_rows]
    if not rows:
        raise DataError(f"{task.path}: the test split has no row; give the task more rows or another share for test")
    tokenizer = load_tokenizer(finetune, "model")
    texts = encode_texts(tokenizer, rows, labels, finetune.facts["max_length"], str(task.path))
    model = load_finetuned(finetune, job.input("convert"), tokenizer.pad_token_id).to(device)
    logits = label_logits(model, Examples(texts), settings.eval_batch_size, tokenizer.pad_token_id)
    predicted = [labels[i] for i in logits.argmax(axis=1)]
    true = [row["label"] for row in rows]
    write_documents(job.directory / "predictions.jsonl.zst", _predictions(rows, predicted, logits))

    matrix = confusion(labels, true, predicted)
    figures = label_figures(matrix)
    facts: dict[str, Any] = {"kind": "classification", "confusion": {"labels": labels, "matrix": matrix.tolist()}}
    # A network from random weights is itself a reference: its sibling shows the others.
    if settings.references and finetune.facts["init"] == "pretrained":
        found, facts["tfidf_strength"] = _references(task, rows, labels)
        figures += found
    return Product(
        ["predictions.jsonl.zst"],
        {**facts, "init": finetune.facts["init"], "rows": len(rows), "truncated": texts.truncated, "figures": figures},
    )


def _references(task: Manifest, rows: list[dict[str, Any]], labels: list[str]) -> tuple[list[dict[str, Any]], float]:
    train, valid = (_split(read_documents(task.file(f"{split}.jsonl.zst"))) for split in ("train", "valid"))
    test = _split(rows)
    most = confusion(labels, test.labels, majority(train.labels, test.labels))
    learnt, strength = tfidf_logistic(train, valid, test)
    linear = confusion(labels, test.labels, learnt)
    return [
        *label_figures(most, reference="majority class"),
        *label_figures(linear, reference="TF-IDF + logistic regression"),
    ], strength


def _split(rows: Any) -> Split:
    found = list(rows)
    return Split([row["text"] for row in found], [row["label"] for row in found])


def _predictions(rows: list[dict[str, Any]], predicted: list[str], logits: np.ndarray) -> Any:
    powers = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    shares = powers / powers.sum(axis=1, keepdims=True)
    for row, label, share in zip(rows, predicted, shares, strict=True):
        probabilities = [round(float(value), 6) for value in share]
        yield {"id": row["id"], "label": row["label"], "predicted": label, "probabilities": probabilities}
