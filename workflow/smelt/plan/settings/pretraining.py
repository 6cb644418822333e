"""How a network is trained on tokens: data order, batch, optimizer, schedule, precision."""

from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from smelt.plan.settings.base import Settings
from smelt.plan.settings.model import Model


class Pretraining(Settings):
    """Training from random weights on shards, with AdamW (Loshchilov & Hutter 2019). Give one of `max_steps`,
    `max_tokens`, `num_train_epochs`."""

    objective: Literal["causal"] = "causal"
    """What is learned: ``causal`` predicts each token from those before it."""

    sequence_length: Annotated[int, Field(ge=2)] = 1024
    """Tokens of a training sequence, cut from the stream of documents; at most the model's
    `max_position_embeddings`."""

    train_batch_size: PositiveInt = 64
    """Sequences of one optimizer step over all devices. Micro-batch and gradient accumulation follow from it and the
    machine."""

    max_steps: PositiveInt | None = None
    """Optimizer steps. A training set that is shorter is gone through again in another order."""

    max_tokens: PositiveInt | None = None
    """Tokens to train on: as many whole steps as fit."""

    num_train_epochs: PositiveFloat | None = None
    """Passes over the training set (fractions allowed). One pass if neither this nor `max_steps` nor `max_tokens` is
    given."""

    learning_rate: PositiveFloat = 6e-4
    """Highest learning rate."""

    lr_scheduler_type: Literal["cosine", "linear", "constant"] = "cosine"
    """Course of the learning rate after the warm-up."""

    warmup_steps: NonNegativeFloat = 0.02
    """Steps over which the learning rate rises linearly from near 0; below 1: a share of all steps."""

    min_lr_rate: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Where ``cosine`` and ``linear`` end, as a share of `learning_rate`."""

    weight_decay: NonNegativeFloat = 0.1
    """Decoupled weight decay of matrices and embeddings; biases and layer norms have none."""

    adam_beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Decay of AdamW's mean of gradients."""

    adam_beta2: Annotated[float, Field(ge=0, lt=1)] = 0.95
    """Decay of AdamW's mean of squared gradients."""

    adam_epsilon: PositiveFloat = 1e-8
    """Added to the denominator of AdamW."""

    max_grad_norm: NonNegativeFloat = 1.0
    """Gradients are scaled down to this norm (over all parameters) where they exceed it; 0 leaves them as they are."""

    precision: Literal["fp32", "bf16"] = "fp32"
    """``bf16`` multiplies matrices in bfloat16 and keeps weights and optimizer in float32. Some 19 times slower than
    ``fp32`` on a CPU without bfloat16 units, the right choice on a GPU."""

    seed: NonNegativeInt = 0
    """Of initial weights, data order and dropout."""

    eval_steps: NonNegativeInt = 500
    """Steps between measurements of the validation loss; there is always one at the end. 0: only there."""

    eval_sequences: PositiveInt = 256
    """Sequences of the validation split that are measured, spread evenly over it; the whole split if it holds fewer."""

    logging_steps: PositiveInt = 10
    """Steps between the points of the training curve; each is the mean over the tokens of these steps."""

    max_skipped_steps: NonNegativeInt = 10
    """A step whose loss or gradient is not finite changes nothing and is counted. One more than this many ends the
    training with an error."""

    cpu_threads: PositiveInt = 2
    """Threads of the arithmetic on a CPU. A setting and not the machine's number, since it changes sums in the last
    bits."""

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        given = {
            name: getattr(self, name)
            for name in ("max_steps", "max_tokens", "num_train_epochs")
            if getattr(self, name) is not None
        }
        if len(given) > 1:
            raise ValueError(
                "give one length of training, not several: "
                + ", ".join(f"{name} {value}" for name, value in given.items())
            )
        if self.max_tokens is not None and self.max_tokens < self.train_batch_size * self.sequence_length:
            raise ValueError(
                f"max_tokens {self.max_tokens:,} is less than one step of train_batch_size {self.train_batch_size} × "
                f"sequence_length {self.sequence_length} = {self.train_batch_size * self.sequence_length:,} tokens"
            )
        return self

    @model_validator(mode="after")
    def _warmup_fits(self) -> Self:
        if self.warmup_steps >= 1 and self.warmup_steps != int(self.warmup_steps):
            raise ValueError(
                f"warmup_steps {self.warmup_steps}: below 1 it is a share of all steps, from 1 a whole number of steps"
            )
        if self.max_steps is not None and self.warmup_steps >= 1 and self.warmup_steps > self.max_steps:
            raise ValueError(f"warmup_steps {self.warmup_steps:.0f} is more than max_steps {self.max_steps}")
        return self


class Pretrain(Settings):
    """The settings of a pretrain node: a network and its training, which must fit each other."""

    model: Model
    """The network."""

    pretraining: Pretraining
    """Its training."""

    @model_validator(mode="after")
    def _sequence_fits(self) -> Self:
        length, longest = self.pretraining.sequence_length, self.model.max_position_embeddings
        if length > longest:
            raise ValueError(
                f"pretraining.sequence_length {length} is more than model.max_position_embeddings {longest}: "
                "lower the one or raise the other"
            )
        return self
