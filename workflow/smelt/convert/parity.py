"""Proof that an exported directory is the trained network: same tensors, same ties, same logits on real text."""

from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from smelt.models.network import untied
from smelt.plan.errors import DataError

ROUNDED_SHARE = 0.05
"""Of the largest logit: what rounding weights to bfloat16 may change. Seen: 0.002 to 0.005 with 2 to 12 blocks."""
EXACT = 1e-4
"""Absolute, for float32: the same arithmetic on the same numbers; usually 0."""


class ParityError(DataError):
    """The export does not compute what the trained network computes."""


@torch.no_grad()
def logits(network: PreTrainedModel, rows: np.ndarray) -> torch.Tensor:
    """rows [sequences, length] int64 → [sequences, length, vocabulary] float32. The network is one in float32."""
    network.eval()
    return torch.cat([network(input_ids=row, use_cache=False).logits for row in torch.from_numpy(rows).split(8)])


def reload(directory: Path, exported: PreTrainedModel) -> PreTrainedModel:
    """Load `directory` as any user would, and compare it with the network that was saved.

    Raises:
        ParityError: for a key that is missing or too many, another type, a broken tie, or a tensor that differs in any bit.
    """
    loaded, report = AutoModelForCausalLM.from_pretrained(
        directory, dtype="auto", local_files_only=True, output_loading_info=True, ignore_mismatched_sizes=True
    )
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        if report.get(kind):
            raise ParityError(f"{directory}: {kind.replace('_', ' ')} when loaded: {sorted(map(str, report[kind]))}")
    if is_tied(loaded) != exported.config.tie_word_embeddings:
        wanted = "one tensor" if exported.config.tie_word_embeddings else "two tensors"
        raise ParityError(f"{directory}: input and output embeddings should be {wanted} after loading, and are not")
    wanted_tensors, found = untied(exported), untied(loaded)
    if set(wanted_tensors) != set(found):
        raise ParityError(f"{directory}: tensors differ when loaded: {sorted(set(wanted_tensors) ^ set(found))}")
    for name, tensor in wanted_tensors.items():
        if found[name].dtype != tensor.dtype or not torch.equal(found[name], tensor):
            raise ParityError(
                f"{directory}: {name} is not what was trained: {found[name].dtype}, norm {found[name].float().norm():.6g} "
                f"instead of {tensor.dtype}, norm {tensor.float().norm():.6g}"
            )
    return loaded


def is_tied(network: PreTrainedModel) -> bool:
    return network.get_input_embeddings().weight is network.get_output_embeddings().weight


def compare(
    reference: torch.Tensor, network: PreTrainedModel, rows: np.ndarray, tolerance: float | None
) -> tuple[float, float]:
    """Largest absolute difference between `reference` and the logits of `network`, computed in float32, and what is allowed.

    Raises ParityError if it is more than `tolerance` (None: what its type warrants).
    """
    rounded = network.dtype != torch.float32
    if tolerance is None:
        tolerance = ROUNDED_SHARE * float(reference.abs().max()) if rounded else EXACT
    difference = float((logits(network.float(), rows) - reference).abs().max())
    # Written so that NaN fails.
    if not difference <= tolerance:
        raise ParityError(
            f"the exported network's logits differ from the trained one's by up to {difference:.4g} on {rows.size:,} tokens of "
            f"the valid split; {tolerance:.4g} is allowed (convert.parity_tolerance)"
        )
    return difference, tolerance


def check_tokenizer(directory: Path, network: PreTrainedModel) -> None:
    """Raises ParityError if the tokenizer in `directory` has another vocabulary or other special tokens than the network."""
    tokenizer = AutoTokenizer.from_pretrained(directory, local_files_only=True)
    pairs = {"vocabulary": (len(tokenizer), network.config.vocab_size)}
    for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
        pairs[name] = (getattr(tokenizer, name), getattr(network.config, name))
    for name, (found, wanted) in pairs.items():
        if found != wanted:
            raise ParityError(f"{directory}: {name} is {found} in the tokenizer and {wanted} in the network")
