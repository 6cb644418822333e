"""Models of upstream nodes, from their Hugging Face directories: the converted one, and what was made of it."""

from typing import TYPE_CHECKING, Any

from smelt.plan.errors import DataError
from smelt.plan.manifest import Manifest

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

DROPOUTS = (
    "resid_pdrop", "embd_pdrop", "attn_pdrop", "attention_dropout", "hidden_dropout_prob", "attention_probs_dropout_prob",
)  # fmt: skip
"""Names under which transformers' configurations keep the dropout."""


def load_config(convert: Manifest) -> "PreTrainedConfig":
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(convert.directory / "hf", local_files_only=True)


def load_tokenizer(node: Manifest, folder: str) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(node.directory / folder, local_files_only=True)


def load_base(
    convert: Manifest, labels: list[str], pad: int | None, dropout: float | None = None, untrained: bool = False
) -> "PreTrainedModel":
    """The converted model in fp32 on the CPU: for text, or with a new head for `labels` if there are any.

    New weights (the head; all of an `untrained` one) come from torch's global generator.

    Raises:
        DataError: if weights of the body are missing, or a file is not what the manifest lists.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

    config = load_config(convert)
    config.pad_token_id = pad
    if dropout is not None:
        for name in DROPOUTS:
            if hasattr(config, name):
                setattr(config, name, dropout)
    if labels:
        config.id2label = dict(enumerate(labels))
        config.label2id = {label: position for position, label in enumerate(labels)}
    auto = AutoModelForSequenceClassification if labels else AutoModelForCausalLM
    if untrained:
        return auto.from_config(config, dtype=torch.float32)
    model, info = auto.from_pretrained(
        convert.folder("hf", content=True),
        config=config,
        dtype=torch.float32,
        local_files_only=True,
        use_safetensors=True,
        output_loading_info=True,
    )
    # Only a head may be new.
    missing = sorted(name for name in info["missing_keys"] if name.startswith(model.base_model_prefix + "."))
    if missing or info["mismatched_keys"]:
        raise DataError(f"{convert.path}: its hf/ lacks weights of the network: {missing or info['mismatched_keys']}")
    return model


def load_finetuned(finetune: Manifest, convert: Manifest, pad: int) -> Any:
    """What a finetune node left in `model/`, in fp32 on the CPU; adapters sit on the converted model.

    Raises:
        DataError: if a file is not what its manifest lists.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

    labels: list[str] = finetune.facts["labels"]
    directory = finetune.folder("model", content=True)
    if finetune.facts["method"] == "lora":
        from peft import PeftModel

        return PeftModel.from_pretrained(load_base(convert, labels, pad), directory).eval()
    auto = AutoModelForSequenceClassification if labels else AutoModelForCausalLM
    return auto.from_pretrained(directory, dtype=torch.float32, local_files_only=True, use_safetensors=True).eval()
