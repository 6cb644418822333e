"""What a dialogue model does with the test split: perplexity of the answers in the data, and answers of its own.

- Perplexity counts the tokens of the answers and their ends, nothing else; beside it stands the model before fine-tuning.
- Own answers: to the first prompts of the split. Latency is that of one answer at a time. Repetition is the share of
  trigrams that occurred before in the same answer; distinct-n the share of different n-grams among those of all answers
  (Li et al. 2016, https://arxiv.org/abs/1510.03055), both over tokens, so that they hold for any script.
"""

import contextlib
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from smelt.data.batches import Examples
from smelt.data.dialogue import Dialogues, encode_dialogues, encode_prompt
from smelt.data.documents import read_documents
from smelt.models.loading import load_base, load_finetuned, load_tokenizer
from smelt.models.scoring import answer_nats
from smelt.plan.errors import DataError
from smelt.plan.job import Job, Product, figure
from smelt.plan.manifest import to_json
from smelt.plan.progress import Progress
from smelt.plan.settings.evaluate import Evaluate

if TYPE_CHECKING:
    import torch


def evaluate(job: Job, settings: Evaluate, device: "torch.device") -> Product:
    finetune, task = job.input("finetune"), job.input("task")
    rows = list(read_documents(task.file("test.jsonl.zst")))[: settings.max_test_rows]
    tokenizer = load_tokenizer(finetune, "model")
    data = encode_dialogues(tokenizer, rows, finetune.facts["max_length"])
    if not data.ids:
        raise DataError(
            f"{task.path}: none of the {len(rows)} dialogues of the test split can be used with max_length "
            f"{finetune.facts['max_length']} ({dict(data.counts)}); give the task more rows or raise max_length"
        )
    model = load_finetuned(finetune, job.input("convert"), tokenizer.pad_token_id).to(device)
    examples, pad = Examples(data), tokenizer.pad_token_id
    figures = [_perplexity(model, examples, settings, pad)]
    if settings.references and finetune.facts["init"] == "pretrained":
        with _before(model, job, finetune.facts["method"], pad, device) as base:
            figures.append(_perplexity(base, examples, settings, pad, reference="before fine-tuning"))
    answers = _answer_all(job, model, tokenizer, data, settings)
    figures += answer_figures([answer.ids for answer in answers], [answer.ended for answer in answers])
    samples = [
        {"messages": data.prompts[i], "answer": answers[i].text, "reference": data.answers[i]}
        for i in range(min(settings.samples, len(answers)))
    ]
    (job.directory / "samples.json").write_text(to_json(samples), encoding="utf-8")
    facts = {
        "kind": "dialogue",
        "figures": figures,
        "samples": samples,
        "rows": len(rows),
        "data": dict(sorted(data.counts.items())),
        "generated_answers": len(answers),
    }
    return Product(["samples.json"], facts, {"figures": latency_figures([answer.seconds for answer in answers])})


@contextlib.contextmanager
def _before(model: Any, job: Job, method: str, pad: int, device: Any) -> Iterator[Any]:
    """The model as it was before fine-tuning."""
    if method == "lora":
        with model.disable_adapter():
            yield model
    else:
        yield load_base(job.input("convert"), [], pad).to(device)


def _perplexity(model: Any, examples: Examples, settings: Evaluate, pad: int, **more: str) -> dict[str, Any]:
    nats, counts = answer_nats(model, examples, settings.eval_batch_size, pad)
    return figure("perplexity", "test", math.exp(nats.sum() / counts.sum()), "per answer token", **more)


@dataclass(frozen=True)
class Answer:
    ids: list[int]
    """Without the end token."""
    text: str
    ended: bool
    """The model ended it itself, before `max_new_tokens`."""
    seconds: float


def _answer_all(job: Job, model: Any, tokenizer: Any, data: Dialogues, settings: Evaluate) -> list[Answer]:
    prompts = data.prompts[: settings.generated_answers]
    # The first call allocates and is not what an answer takes.
    _answer(model, tokenizer, prompts[0], settings, 0)
    answers = []
    with Progress(job, len(prompts), "answers") as progress:
        for number, prompt in enumerate(prompts):
            answers.append(_answer(model, tokenizer, prompt, settings, number))
            progress.update(1)
    return answers


def _answer(model: Any, tokenizer: Any, prompt: list[dict[str, str]], settings: Evaluate, number: int) -> Answer:
    import torch

    # Its own seed for each answer, so that none depends on how long others were.
    torch.manual_seed(settings.seed + number)
    room = model.config.max_position_embeddings - settings.max_new_tokens
    if room < 1:
        raise DataError(
            f"evaluate: max_new_tokens {settings.max_new_tokens} leaves no room for a prompt: the network takes "
            f"{model.config.max_position_embeddings} tokens"
        )
    # A prompt that is too long loses its beginning.
    ids = torch.tensor([encode_prompt(tokenizer, prompt)[-room:]], device=model.device)
    sampling = {"do_sample": False}
    if settings.temperature > 0:
        sampling = {"do_sample": True, "temperature": settings.temperature, "top_k": 0, "top_p": 1.0}
    started = time.perf_counter()
    with torch.no_grad():
        found = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=settings.max_new_tokens,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            **sampling,
        )
    new = found[0, ids.shape[1] :].tolist()
    seconds = time.perf_counter() - started
    ended = bool(new) and new[-1] == tokenizer.eos_token_id
    new = new[:-1] if ended else new
    return Answer(new, tokenizer.decode(new, skip_special_tokens=True).strip(), ended, seconds)


def answer_figures(answers: list[list[int]], ended: list[bool]) -> list[dict[str, Any]]:
    """Repetition, distinct-1, distinct-2, mean length and the share of answers that end by themselves."""
    trigrams = [_ngrams(answer, 3) for answer in answers]
    total = sum(map(len, trigrams))
    repeated = sum(len(found) - len(set(found)) for found in trigrams)
    figures = [figure("repetition", "test", repeated / total if total else 0.0, "share of trigrams")]
    for n in (1, 2):
        found = [gram for answer in answers for gram in _ngrams(answer, n)]
        figures.append(figure(f"distinct_{n}", "test", len(set(found)) / max(len(found), 1), "share of n-grams"))
    figures.append(figure("answer_length", "test", float(np.mean([len(answer) for answer in answers])), "tokens"))
    figures.append(figure("ended_answers", "test", float(np.mean(ended)), "share"))
    return figures


def latency_figures(seconds: list[float]) -> list[dict[str, Any]]:
    p50, p95 = np.percentile(seconds, [50, 95])
    return [
        figure("answer_latency_p50", "test", round(1000 * float(p50), 2), "ms"),
        figure("answer_latency_p95", "test", round(1000 * float(p95), 2), "ms"),
    ]


def _ngrams(ids: list[int], n: int) -> list[tuple[int, ...]]:
    return [tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)]
