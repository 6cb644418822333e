"""From the settings of a network to the network: a configuration of transformers, random weights from a seed."""

from typing import Any

import torch
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedConfig, PreTrainedModel

from smelt.plan.settings.model import Model


def configuration(model: Model, vocab_size: int, special_tokens: dict[str, int]) -> PreTrainedConfig:
    """The configuration that `transformers` knows the network by. `special_tokens` holds the ids of pad, bos and eos."""
    ids = {f"{name}_token_id": special_tokens[name] for name in ("pad", "bos", "eos")}
    return GPT2Config(
        vocab_size=vocab_size,
        n_positions=model.max_position_embeddings,
        n_embd=model.hidden_size,
        n_layer=model.num_hidden_layers,
        n_head=model.num_attention_heads,
        n_inner=model.intermediate_size,
        activation_function=model.hidden_act,
        resid_pdrop=model.dropout,
        embd_pdrop=model.dropout,
        attn_pdrop=model.dropout,
        layer_norm_epsilon=model.layer_norm_epsilon,
        initializer_range=model.initializer_range,
        tie_word_embeddings=model.tie_word_embeddings,
        attn_implementation=model.attn_implementation,
        architectures=[GPT2LMHeadModel.__name__],
        dtype="float32",
        **ids,
    )


def build(config: PreTrainedConfig, seed: int) -> PreTrainedModel:
    """The network in float32 on the CPU; equal seeds give equal weights, whatever was drawn before."""
    torch.manual_seed(seed)
    return GPT2LMHeadModel(config)


def parameter_count(network: torch.nn.Module) -> int:
    """Trainable numbers; a tied tensor counts once."""
    return sum(parameter.numel() for parameter in network.parameters())


def untied(network: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The state dict with each tensor once, under the first of its names: what is written to disk."""
    seen: set[Any] = set()
    kept = {}
    for name, tensor in network.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            kept[name] = tensor.detach()
    return kept
