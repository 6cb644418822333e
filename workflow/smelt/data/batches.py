"""Examples of different lengths in batches: which go together, and how they are padded."""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import torch

    from smelt.data.classification import Texts
    from smelt.data.dialogue import Dialogues

BATCHES_SORTED_TOGETHER = 50
"""Examples are sorted by length within so many batches: less padding, and still another order in each epoch."""


class Examples:
    """`examples[i]` is `{"input_ids": [int, …], "labels": int | [int, …]}`."""

    def __init__(self, data: "Texts | Dialogues") -> None:
        self.ids: list[list[int]] = data.ids
        self.labels: list[Any] = data.labels

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"input_ids": self.ids[index], "labels": self.labels[index]}

    @property
    def lengths(self) -> np.ndarray:
        return np.fromiter((len(each) for each in self.ids), np.int64, len(self.ids))


def batches_of_epoch(lengths: np.ndarray, batch_size: int, seed: int, epoch: int) -> list[list[int]]:
    """All indices once, examples of similar length together, batches in random order; a function of `seed` and `epoch` alone.

    Only the last batch may be smaller.
    """
    random = np.random.default_rng([seed, epoch])
    order = random.permutation(len(lengths))
    group = batch_size * BATCHES_SORTED_TOGETHER
    for start in range(0, len(order), group):
        part = order[start : start + group]
        order[start : start + group] = part[np.argsort(lengths[part], kind="stable")]
    batches = [order[start : start + batch_size].tolist() for start in range(0, len(order), batch_size)]
    whole = len(order) // batch_size
    return [batches[i] for i in random.permutation(whole)] + batches[whole:]


def batches_by_length(lengths: np.ndarray, batch_size: int) -> list[list[int]]:
    """All indices once, sorted by length: the least padding, for measuring."""
    order = np.argsort(lengths, kind="stable")
    return [order[start : start + batch_size].tolist() for start in range(0, len(order), batch_size)]


def pad_batch(examples: list[dict[str, Any]], pad: int) -> "dict[str, torch.Tensor]":
    """Pad on the right.

    Returns:
        input_ids, attention_mask: [batch, longest] int64; labels: [batch] or, with -100 for padding, [batch, longest] int64.
    """
    import torch

    from smelt.data.dialogue import IGNORED

    longest = max(len(example["input_ids"]) for example in examples)
    ids = torch.full((len(examples), longest), pad, dtype=torch.int64)
    mask = torch.zeros_like(ids)
    by_token = isinstance(examples[0]["labels"], list)
    labels = torch.full_like(ids, IGNORED) if by_token else torch.tensor([example["labels"] for example in examples])
    for row, example in enumerate(examples):
        length = len(example["input_ids"])
        ids[row, :length] = torch.tensor(example["input_ids"])
        mask[row, :length] = 1
        if by_token:
            labels[row, :length] = torch.tensor(example["labels"])
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}
