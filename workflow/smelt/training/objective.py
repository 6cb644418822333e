"""What is minimised. An objective gives the sum of the loss and the number of predicted tokens, never a mean.

Means of micro-batches would weigh a short one like a long one; sums add up to the same for every division of a batch.
"""

import torch
from torch.nn.functional import cross_entropy

IGNORED = -100
"""A label that is not predicted."""


def causal_labels(tokens: torch.Tensor) -> torch.Tensor:
    """tokens [batch, length] int64 → labels [batch, length]: the next token; the last position predicts nothing."""
    labels = torch.full_like(tokens, IGNORED)
    labels[:, :-1] = tokens[:, 1:]
    return labels


def loss_sum(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Sum of the negative log-likelihoods in nats, float32. logits [batch, length, vocabulary], labels [batch, length]."""
    return cross_entropy(logits.float().flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="sum")
