"""The network that learns: the converted model, or the same one untrained, with a head for labels or as it is, adapted or whole."""

from typing import TYPE_CHECKING, Any

from smelt.models.lora import add_lora
from smelt.plan.errors import DataError
from smelt.plan.manifest import Manifest
from smelt.plan.settings.finetuning import Finetuning

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedConfig, PreTrainedModel

DROPOUTS = (
    "resid_pdrop",
    "embd_pdrop",
    "attn_pdrop",
    "attention_dropout",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
)
"""Names under which transformers' configurations keep the dropout."""


def max_length_of(config: "PreTrainedConfig", settings: Finetuning) -> int:
    """Tokens of an example. Raises DataError if the settings ask for more than the network has positions."""
    most = config.max_position_embeddings
    if settings.max_length and settings.max_length > most:
        raise DataError(f"finetuning: max_length is {settings.max_length}, but the network takes at most {most} tokens")
    return settings.max_length or most


def build(convert: Manifest, settings: Finetuning, labels: list[str], tokenizer: Any) -> "PreTrainedModel | PeftModel":
    """In fp32 on the CPU. New weights (head, adapters, all of an untrained network) come from `settings.seed`."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification

    torch.manual_seed(settings.seed)
    directory = convert.directory / "hf"
    config = AutoConfig.from_pretrained(directory, local_files_only=True)
    config.pad_token_id = tokenizer.pad_token_id
    if settings.dropout is not None:
        for name in DROPOUTS:
            if hasattr(config, name):
                setattr(config, name, settings.dropout)
    if labels:
        config.id2label = dict(enumerate(labels))
        config.label2id = {label: position for position, label in enumerate(labels)}
    auto = AutoModelForSequenceClassification if labels else AutoModelForCausalLM
    if settings.init == "random":
        model = auto.from_config(config, dtype=torch.float32)
    else:
        model, info = auto.from_pretrained(
            directory,
            config=config,
            dtype=torch.float32,
            local_files_only=True,
            use_safetensors=True,
            output_loading_info=True,
        )
        _check_loaded(model, info, convert)
    if settings.method == "lora":
        model = add_lora(model, settings.lora, "SEQ_CLS" if labels else "CAUSAL_LM")
    return model


def _check_loaded(model: Any, info: dict[str, Any], convert: Manifest) -> None:
    """All weights of the body must come from the converted model; only a head may be new."""
    body = model.base_model_prefix + "."
    missing = sorted(name for name in info["missing_keys"] if name.startswith(body))
    if missing or info["mismatched_keys"]:
        raise DataError(f"{convert.path}: its hf/ lacks weights of the network: {missing or info['mismatched_keys']}")
