"""Low-rank adapters through peft (Hu et al. 2021, https://arxiv.org/abs/2106.09685)."""

from typing import TYPE_CHECKING, Literal

from smelt.plan.errors import DataError
from smelt.plan.settings.finetuning import Lora

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel


def add_lora(model: "PreTrainedModel", settings: Lora, task_type: Literal["CAUSAL_LM", "SEQ_CLS"]) -> "PeftModel":
    """Freeze `model` and put adapters beside its layers; the head of a classifier stays trainable as a whole.

    Raises:
        DataError: if `target_modules` names no layer of the model.
    """
    from peft import LoraConfig, get_peft_model
    from transformers.pytorch_utils import Conv1D

    config = LoraConfig(
        task_type=task_type,
        r=settings.r,
        lora_alpha=settings.lora_alpha,
        lora_dropout=settings.lora_dropout,
        target_modules=settings.target_modules,
        # GPT-2 keeps its linear layers transposed, as Conv1D.
        fan_in_fan_out=any(isinstance(module, Conv1D) for module in model.modules()),
    )
    if settings.target_modules != "all-linear":
        names = {name.rpartition(".")[2] for name, _ in model.named_modules()}
        if missing := [name for name in settings.target_modules if name not in names]:
            raise DataError(
                f"lora.target_modules: the model has no layer named {', '.join(missing)}; it has {', '.join(sorted(names - {''}))}"
            )
    return get_peft_model(model, config)
