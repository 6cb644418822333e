"""The network that learns: the converted model, or the same one untrained, whole or with adapters."""

from typing import TYPE_CHECKING

from smelt.models.loading import load_base
from smelt.models.lora import add_lora
from smelt.plan.errors import DataError
from smelt.plan.manifest import Manifest
from smelt.plan.settings.finetuning import Finetuning

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedConfig, PreTrainedModel


def max_length_of(config: "PreTrainedConfig", settings: Finetuning) -> int:
    """Tokens of an example. Raises DataError if the settings ask for more than the network has positions."""
    most = config.max_position_embeddings
    if settings.max_length and settings.max_length > most:
        raise DataError(f"finetuning: max_length is {settings.max_length}, but the network takes at most {most} tokens")
    return settings.max_length or most


def build(convert: Manifest, settings: Finetuning, labels: list[str], pad: int) -> "PreTrainedModel | PeftModel":
    """In fp32 on the CPU. New weights (head, adapters, all of an untrained network) come from `settings.seed`."""
    import torch

    torch.manual_seed(settings.seed)
    model = load_base(convert, labels, pad, settings.dropout, untrained=settings.init == "random")
    if settings.method == "lora":
        return add_lora(model, settings.lora, "SEQ_CLS" if labels else "CAUSAL_LM")
    return model
