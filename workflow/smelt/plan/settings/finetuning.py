"""Fine-tuning: what of the converted model learns a task, and how."""

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from smelt.plan.settings.base import Settings, reference


class Lora(Settings):
    """Low-rank adapters: W + (alpha / r) B A, only A and B learn (Hu et al. 2021, https://arxiv.org/abs/2106.09685)."""

    r: PositiveInt = 8
    """Rank of the adapters."""
    lora_alpha: PositiveInt = 16
    """Their scale is ``lora_alpha / r``."""
    lora_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Dropout on what enters an adapter."""
    target_modules: Literal["all-linear"] | list[str] = "all-linear"
    """Names of the layers that get one. ``all-linear``: every linear layer but the output layer."""


class Finetuning(Settings):
    """Train the converted model on a task: labelled texts (a label is predicted at the last token) or dialogue (only the answers count)."""

    task: str = reference("tasks")
    """The labelled data or dialogue."""
    method: Literal["full", "lora"] = "full"
    """``full`` trains all weights, ``lora`` adapters beside frozen ones."""
    lora: Lora = Lora()
    """Shape of the adapters; read for ``method: lora`` only."""
    init: Literal["pretrained", "random"] = "pretrained"
    """Where the weights start. ``random`` is the same network untrained: what pretraining is worth is the difference."""
    from_scratch_reference: bool = True
    """For labelled data: also train the same network from random weights, as a reference. Adds a node beside this one."""

    learning_rate: PositiveFloat = 5e-4
    """Peak learning rate of AdamW."""
    lr_scheduler_type: Literal["linear", "cosine", "constant", "constant_with_warmup"] = "linear"
    """How the learning rate falls after the warm-up."""
    warmup_steps: NonNegativeFloat = 0.1
    """Optimizer steps of linear warm-up; below 1 a share of all steps."""
    num_train_epochs: PositiveInt = 3
    """Passes over the training split."""
    max_steps: PositiveInt | None = None
    """Stop after so many optimizer steps, if that is sooner."""
    train_batch_size: PositiveInt = 32
    """Examples in an optimizer step, over all accumulation steps."""
    weight_decay: NonNegativeFloat = 0.01
    """AdamW's decay; biases and norms have none."""
    max_grad_norm: NonNegativeFloat = 1.0
    """Gradients are scaled down to this norm; 0 leaves them as they are."""
    dropout: Annotated[float, Field(ge=0, lt=1)] | None = None
    """Dropout of the network while it learns the task; unset: as in pretraining."""
    max_length: Annotated[int, Field(ge=4)] | None = None
    """Tokens of an example: longer texts lose their end, longer dialogues are cut between turns, and both are counted. Unset: all that the network can take."""
    max_train_rows: PositiveInt | None = None
    """Take only the first so many rows of the training split."""

    eval_batch_size: PositiveInt = 128
    """Examples at once while validating."""
    load_best_model_at_end: bool = True
    """Keep the epoch that does best on the validation split (accuracy for labels, loss for dialogue), else the last."""
    early_stopping_patience: NonNegativeInt = 0
    """Stop after so many epochs without a better one; 0 never stops early."""

    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    """``bf16`` and ``fp16`` compute in half precision with fp32 weights. ``fp16`` needs a GPU; on most CPUs ``bf16`` is many times slower."""
    seed: NonNegativeInt = 42
    """Of new weights, order and dropout."""
    cpu_threads: PositiveInt = 1
    """Threads of the arithmetic on a CPU. They change sums in the last bits, so they are a setting and not the scheduler's number."""
    logging_steps: PositiveInt = 10
    """Optimizer steps between the points of the training curve."""

    @model_validator(mode="after")
    def _patience_needs_the_best(self) -> "Finetuning":
        if self.early_stopping_patience and not self.load_best_model_at_end:
            raise ValueError(
                "early_stopping_patience needs load_best_model_at_end: true, else the epochs without gain would be kept"
            )
        return self
