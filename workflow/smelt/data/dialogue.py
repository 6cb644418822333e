"""Dialogues as token ids, and which of them a model is to learn: the answers, each with the token that ends it.

    Hi there</s><s>Hello! How are you?</s>Fine.</s><s>Good to hear.</s>
               ^   ------------------------        -------------------   ^ an answer begins; --- what counts

Every turn ends with the end token, as documents do in pretraining; an answer begins with the start token, which is also
the prompt for generating one. No token is added to the vocabulary. The padding token differs from the end token, so that
the end of an answer is learnt. The template is stored in the tokenizer that is saved with the model.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from smelt.plan.errors import DataError

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if message['role'] == 'assistant' -%}{{ bos_token }}{%- endif -%}"
    "{{ message['content'] }}{{ eos_token }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ bos_token }}{%- endif -%}"
)
IGNORED = -100
"""Label of a token that does not count, as in torch's cross entropy."""


@dataclass(frozen=True)
class Dialogues:
    """Examples of one split. A dialogue that is too long gives several, cut between turns."""

    ids: list[list[int]]
    labels: list[list[int]]
    """Beside `ids`: the id again where the token counts, else -100."""
    prompts: list[list[dict[str, str]]]
    """For each example the messages before its first answer; for generating."""
    answers: list[str]
    """For each example its first answer."""
    counts: Counter[str] = field(default_factory=Counter)
    """`answers`, `cut_dialogues` (gave several examples), `dropped_turns_too_long`, `dropped_no_answer`."""


def check_tokenizer(tokenizer: Any, where: str) -> None:
    """Raises DataError if the template's tokens are missing or not distinct."""
    tokens = {name: getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos", "pad")}
    if None in tokens.values() or len(set(tokens.values())) < len(tokens):
        raise DataError(f"the tokenizer of {where} has the special tokens {tokens}: dialogue needs three that differ")


def store_template(tokenizer: Any) -> None:
    """Make `tokenizer.apply_chat_template` give what a model was trained on, also once it is saved and loaded again."""
    tokenizer.chat_template = CHAT_TEMPLATE
    # The template writes its special tokens as text.
    tokenizer.split_special_tokens = tokenizer.init_kwargs["split_special_tokens"] = False


def encode_dialogues(tokenizer: Any, rows: list[dict[str, Any]], max_length: int) -> Dialogues:
    """Examples of at most `max_length` tokens; every answer is in exactly one of them, whole, or counted as dropped."""
    result = Dialogues([], [], [], [])
    for row in rows:
        messages = row["messages"]
        if not any(message["role"] == "assistant" for message in messages):
            result.counts["dropped_no_answer"] += 1
            continue
        examples = 0
        for part in _parts(tokenizer, messages, max_length, result.counts):
            _append(result, part)
            examples += 1
        result.counts["cut_dialogues"] += examples > 1
    return result


def encode_prompt(tokenizer: Any, messages: list[dict[str, str]]) -> list[int]:
    """Token ids after which the model is to answer."""
    return [*(token for turn in _turns(tokenizer, messages) for token in turn.ids), tokenizer.bos_token_id]


@dataclass(frozen=True)
class _Turn:
    message: dict[str, str]
    ids: list[int]
    counts: bool


def _turns(tokenizer: Any, messages: list[dict[str, str]]) -> list[_Turn]:
    texts = [message["content"] for message in messages]
    # A literal "</s>" in a message is text: nobody can forge the end of a turn.
    contents = tokenizer(texts, add_special_tokens=False, split_special_tokens=True, verbose=False)["input_ids"]
    bos, eos = tokenizer.bos_token_id, tokenizer.eos_token_id
    turns = []
    for message, content in zip(messages, contents, strict=True):
        answer = message["role"] == "assistant"
        turns.append(_Turn(message, [*([bos] if answer else []), *content, eos], answer))
    return turns


def _parts(
    tokenizer: Any, messages: list[dict[str, str]], max_length: int, counts: Counter[str]
) -> Iterator[list[_Turn]]:
    """Cut before a question where possible; a question and its answer that do not fit together are dropped."""
    part: list[_Turn] = []
    pair: list[_Turn] = []
    for turn in _turns(tokenizer, messages):
        pair.append(turn)
        if not turn.counts:
            continue
        if _length(pair) > max_length:
            counts["dropped_turns_too_long"] += 1
        else:
            if _length(part) + _length(pair) > max_length:
                yield part
                part = []
            part = part + pair
        pair = []
    if part:
        yield part


def _length(turns: list[_Turn]) -> int:
    return sum(len(turn.ids) for turn in turns)


def _append(result: Dialogues, part: list[_Turn]) -> None:
    ids: list[int] = []
    labels: list[int] = []
    for turn in part:
        ids += turn.ids
        # An answer counts without the start token: that one is given.
        labels += [IGNORED, *turn.ids[1:]] if turn.counts else [IGNORED] * len(turn.ids)
        result.counts["answers"] += turn.counts
    first = next(position for position, turn in enumerate(part) if turn.counts)
    result.ids.append(ids)
    result.labels.append(labels)
    result.prompts.append([turn.message for turn in part[:first]])
    result.answers.append(part[first].message["content"])
