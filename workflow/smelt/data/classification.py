"""Labelled texts as token ids: the text, then the end-of-text token, at which a causal model is asked for the label.

A causal model sees the whole text only at its last token. Ending every text with the same token gives that place one
embedding, and it is the token after which pretraining began something new (Radford et al. 2018).
"""

from dataclasses import dataclass
from typing import Any

from smelt.plan.errors import DataError


@dataclass(frozen=True)
class Texts:
    """Examples of one split; `labels` are positions in the list of labels."""

    ids: list[list[int]]
    labels: list[int]
    truncated: int
    """Texts whose end was cut off."""


def label_names(train_labels: list[str], where: str) -> list[str]:
    """The sorted labels of the training split. Raises DataError if there are fewer than two."""
    names = sorted(set(train_labels))
    if len(names) < 2:
        found = f"only the label {names[0]!r}" if names else "no row"
        raise DataError(
            f"{where}: has {found}; a classifier needs at least two labels. Look at the task's source and label settings"
        )
    return names


def store_ending(tokenizer: Any) -> None:
    """Make `tokenizer(text)` put the end token after a text, also once it is saved and loaded again."""
    from tokenizers.processors import TemplateProcessing

    end = tokenizer.eos_token
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"$A {end}", special_tokens=[(end, tokenizer.eos_token_id)]
    )


def encode_texts(tokenizer: Any, rows: list[dict[str, Any]], labels: list[str], max_length: int, where: str) -> Texts:
    """Token ids of each row, at most `max_length` with the end-of-text token.

    Raises:
        DataError: for a label that the training split does not have, or a tokenizer that cannot mark the end.
    """
    end, pad = tokenizer.eos_token_id, tokenizer.pad_token_id
    if end is None or pad is None or end == pad:
        raise DataError(
            f"the tokenizer of {where} has eos {tokenizer.eos_token!r} and pad {tokenizer.pad_token!r}: the classifier finds the "
            "end of a text as the last token that is not padding, so both must exist and differ"
        )
    known = {name: position for position, name in enumerate(labels)}
    for row in rows:
        if row["label"] not in known:
            raise DataError(
                f"{where}: row {row['id']!r} has the label {row['label']!r}, which the training split lacks (it has "
                f"{', '.join(map(repr, labels))}); give the task more rows or another split seed"
            )
    texts = [row["text"] for row in rows]
    # A literal "</s>" in a text is text.
    found = tokenizer(texts, add_special_tokens=False, split_special_tokens=True, verbose=False)["input_ids"]
    ids = [[*each[: max_length - 1], end] for each in found]
    return Texts(ids, [known[row["label"]] for row in rows], sum(len(each) >= max_length for each in found))
