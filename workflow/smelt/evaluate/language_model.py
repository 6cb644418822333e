"""Perplexity per token and per word, and bits per byte, of the test split, with a stated convention.

- The stream is that of the shards: documents one after the other, each ended by the end token. Every token is scored
  exactly once, the end tokens too (where a document ends must be told as well); before the first stands an end token.
- Windows hold `sequence_length` tokens of input and move by `stride`, by default their length: the first token of a window
  then sees one token before it, the last one all. The last window is moved back to full length. This is the rolling
  likelihood of lm-evaluation-harness with a context of one token.
- The sum of the losses is divided by the tokens (perplexity), by the words, and by the UTF-8 bytes of the texts
  (bits per byte, which does not depend on the tokenizer).
"""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from smelt.data.tokens import TokenStream
from smelt.data.words import count_words
from smelt.evaluate.references import unigram_nats
from smelt.models.loading import load_base, load_tokenizer
from smelt.models.scoring import target_losses
from smelt.plan.errors import DataError
from smelt.plan.job import Job, Product, figure
from smelt.plan.progress import Progress
from smelt.plan.settings.evaluate import Evaluate

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Amount:
    """How much text was scored."""

    documents: int
    tokens: int
    bytes: int
    words: int


def evaluate(job: Job, settings: Evaluate, device: "torch.device") -> Product:
    convert, shards = job.input("convert"), job.input("shards")
    made_with = str(convert.upstream["tokenizer"]).removeprefix("tokenizer/")
    stream = TokenStream(shards, "test", tokenizer=made_with, verify=True)
    if not len(stream):
        raise DataError(f"{shards.path}: the test split is empty; give the corpus more documents or another share")
    tokenizer = load_tokenizer(convert, "hf")
    model = load_base(convert, [], tokenizer.pad_token_id).to(device).eval()
    most = model.config.max_position_embeddings
    length = settings.sequence_length or most
    if length > most:
        raise DataError(f"evaluate: sequence_length is {length}, but the network takes at most {most} tokens")
    stride = min(settings.stride or length, length)
    amount = _amount(stream, tokenizer, settings.max_test_rows)
    started = time.monotonic()
    nats = stream_nats(model, stream, amount.tokens, length, stride, settings.eval_batch_size, job)
    seconds = time.monotonic() - started
    figures = _figures(nats, amount)
    if settings.references:
        train = TokenStream(shards, "train", tokenizer=made_with)
        figures += _figures(unigram_nats(train, stream, amount.tokens), amount, reference="unigram model")
    facts = {
        "kind": "language-model",
        "figures": figures,
        "sequence_length": length,
        "stride": stride,
        "scored": {
            "documents": amount.documents,
            "tokens": amount.tokens,
            "bytes": amount.bytes,
            "words": amount.words,
        },
    }
    speed = amount.tokens / seconds
    return Product([], facts, {"figures": [figure("scored_tokens_per_second", "test", round(speed, 1), "tokens/s")]})


def windows(total: int, length: int, stride: int) -> Iterator[tuple[int, int]]:
    """(first input, how many of its last tokens are scored) of each window over `total` tokens; all of one length but a single short one."""
    scored = min(length, total)
    yield 0, scored
    while scored < total:
        count = min(stride, total - scored)
        scored += count
        yield scored - length, count


def stream_nats(
    model: Any, stream: TokenStream, total: int, length: int, stride: int, batch_size: int, job: Job
) -> float:
    """The summed loss of the first `total` tokens."""
    import torch

    plan = list(windows(total, length, stride))
    nats = 0.0
    with torch.no_grad(), Progress(job, total, "tokens") as progress:
        for start in range(0, len(plan), batch_size):
            batch = plan[start : start + batch_size]
            rows = np.stack([_inputs_and_targets(stream, begin, min(length, total)) for begin, _ in batch])
            tokens = torch.from_numpy(rows).to(model.device)
            losses = target_losses(model(input_ids=tokens[:, :-1], use_cache=False).logits, tokens[:, 1:]).double()
            nats += sum(float(row[-count:].sum()) for row, (_, count) in zip(losses.cpu(), batch, strict=True))
            progress.update(sum(count for _, count in batch))
    return nats


def _inputs_and_targets(stream: TokenStream, begin: int, length: int) -> np.ndarray:
    """[length + 1] int64: the token before `begin` (the end token at the very start), then `length` tokens."""
    if begin:
        return stream.read(begin - 1, begin + length)
    return np.concatenate([[stream.eos], stream.read(0, length)])


def _amount(stream: TokenStream, tokenizer: Any, documents: int | None) -> Amount:
    counts = stream.counts
    if documents is None or documents >= counts["documents"]:
        return Amount(counts["documents"], len(stream), counts["bytes"], counts["words"])
    starts = stream.document_starts()
    texts = [
        tokenizer.decode(stream.read(int(starts[i]), int(starts[i + 1]) - 1), skip_special_tokens=False)
        for i in range(documents)
    ]
    size = sum(len(text.encode()) for text in texts)
    return Amount(documents, int(starts[documents]), size, sum(count_words(text) for text in texts))


def _figures(nats: float, amount: Amount, **more: str) -> list[dict[str, Any]]:
    found = [
        figure("bits_per_byte", "test", nats / math.log(2) / amount.bytes, "bits/byte", **more),
        figure("perplexity", "test", math.exp(nats / amount.tokens), "per token", **more),
    ]
    if amount.words:
        found.append(figure("word_perplexity", "test", math.exp(nats / amount.words), "per word", **more))
    return found
