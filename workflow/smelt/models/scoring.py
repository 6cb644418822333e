"""What a model says of given examples: losses of tokens, logits of labels. Sums are exact over examples of any length."""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from smelt.data.batches import Examples, batches_by_length, pad_batch

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def next_token_losses(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Cross entropy of each label with the logits one place before it.

    Args:
        logits: [batch, length, vocabulary], any float type; computed in fp32.
        labels: [batch, length] int64; -100 where a token does not count. The first one never does.

    Returns:
        [batch, length - 1] fp32 nats, 0 where the label is -100.
    """
    return target_losses(logits[:, :-1], labels[:, 1:])


def target_losses(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Cross entropy place by place: logits [batch, length, vocabulary], targets [batch, length] → [batch, length] fp32 nats."""
    losses = cross_entropy(logits.reshape(-1, logits.shape[-1]).float(), targets.reshape(-1), reduction="none")
    return losses.view(targets.shape)


@torch.no_grad()
def label_logits(model: "PreTrainedModel", examples: Examples, batch_size: int, pad: int) -> np.ndarray:
    """[examples, labels] fp32, in the order of `examples`."""
    model.eval()
    found: list[np.ndarray | None] = [None] * len(examples)
    for indices in batches_by_length(examples.lengths, batch_size):
        batch = _on(model, pad_batch([examples[i] for i in indices], pad))
        logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
        for index, row in zip(indices, logits.float().cpu().numpy(), strict=True):
            found[index] = row
    return np.stack(found)


@torch.no_grad()
def answer_nats(
    model: "PreTrainedModel", examples: Examples, batch_size: int, pad: int
) -> tuple[np.ndarray, np.ndarray]:
    """For each example the sum of its answer tokens' losses (float64 nats) and how many there are (int64)."""
    model.eval()
    nats = np.zeros(len(examples))
    counts = np.zeros(len(examples), np.int64)
    for indices in batches_by_length(examples.lengths, batch_size):
        batch = _on(model, pad_batch([examples[i] for i in indices], pad))
        logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], use_cache=False).logits
        nats[indices] = next_token_losses(logits, batch["labels"]).double().sum(dim=1).cpu().numpy()
        counts[indices] = (batch["labels"][:, 1:] != -100).sum(dim=1).cpu().numpy()
    return nats, counts


def _on(model: Any, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: value.to(model.device) for name, value in batch.items()}
