"""A small tokenizer and shards of made English, through the real stages, for tests of training and conversion."""

import functools
import random
from typing import Any

import texts
from smelt.plan.manifest import Manifest
from smelt.plan.settings.tokenizer import Tokenizer

VOCABULARY = 400
LENGTH = 32

MODEL: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": LENGTH,
    "dropout": 0.1,
}
PRETRAINING: dict[str, Any] = {
    "sequence_length": LENGTH,
    "train_batch_size": 8,
    "max_steps": 24,
    "learning_rate": 3e-3,
    "warmup_steps": 4,
    "eval_steps": 10,
    "eval_sequences": 12,
    "logging_steps": 2,
    "cpu_threads": 1,
}


@functools.cache
def upstream(results: Any) -> dict[str, Manifest]:
    """`tokenizer` and `shards` nodes in `results`, made once."""
    rng = random.Random(3)
    train = [texts.prose(rng, 200) for _ in range(40)]
    corpus = texts.corpus(results.root, train, [texts.prose(rng, 300) for _ in range(3)], label="small-shards")
    tokenizer = results.run("tokenizer", "small-shards", Tokenizer(vocab_size=VOCABULARY), corpus=corpus)
    shards = results.run("shards", "small-shards", {}, corpus=corpus, tokenizer=tokenizer)
    return {"tokenizer": tokenizer, "shards": shards}


def settings(model: dict[str, Any] | None = None, **pretraining: Any) -> dict[str, Any]:
    """Of a pretrain node that trains in about a second; `model` and `pretraining` change single keys."""
    return {"model": {**MODEL, **(model or {})}, "pretraining": {**PRETRAINING, **pretraining}}
