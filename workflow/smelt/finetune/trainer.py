"""transformers' Trainer with three things of our own: the order of examples, the loss, and the validation.

- Order: a function of seed and epoch, examples of similar length together (`smelt.data.batches`).
- Loss: the sum over labels divided by their number in the whole optimizer step, so that accumulation changes nothing.
  Trainer's own way goes wrong twice for GPT-2: it counts the first, never predicted label of each row, which scales loss
  and gradient by (L-1)/L; and for its classifier it adds up the means of the micro-batches instead of averaging them.
- Validation: exact over examples of any length; Trainer averages the means of batches.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from smelt.data.batches import Examples, batches_of_epoch, pad_batch
from smelt.finetune.course import Course
from smelt.finetune.examples import Data
from smelt.models.scoring import answer_nats, label_logits, next_token_losses
from smelt.plan.errors import DataError
from smelt.plan.settings.finetuning import Finetuning

if TYPE_CHECKING:
    from smelt.plan.job import Job


class EpochBatches(TrainerCallback):
    """Micro-batches of the current epoch: each batch of an optimizer step cut into pieces."""

    def __init__(self, examples: Examples, batch_size: int, micro_batch: int, seed: int) -> None:
        self.lengths, self.batch_size, self.micro_batch, self.seed = examples.lengths, batch_size, micro_batch, seed
        self.epoch = 0

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        # From the step, which is right also in a training that was resumed in the middle of an epoch.
        self.epoch = state.global_step // -(-len(self.lengths) // self.batch_size)

    def __iter__(self) -> Any:
        for batch in batches_of_epoch(self.lengths, self.batch_size, self.seed, self.epoch):
            for start in range(0, len(batch), self.micro_batch):
                yield batch[start : start + self.micro_batch]

    def __len__(self) -> int:
        whole, rest = divmod(len(self.lengths), self.batch_size)
        return whole * -(-self.batch_size // self.micro_batch) + -(-rest // self.micro_batch)


class FineTuner(Trainer):
    """Trains `model` on `data.train`, and validates on `data.valid` when `course` asks for it."""

    def __init__(
        self,
        model: Any,
        arguments: TrainingArguments,
        data: Data,
        course: Course,
        batches: EpochBatches,
        settings: Finetuning,
    ) -> None:
        self.data, self.course, self.batches, self.settings = data, course, batches, settings
        self.pad = model.config.pad_token_id
        super().__init__(
            model=model,
            args=arguments,
            train_dataset=data.train,
            eval_dataset=data.valid,
            callbacks=[course, batches],
            compute_loss_func=_dialogue_loss if data.kind == "dialogue" else _label_loss,
        )
        self.remove_callback(PrinterCallback)

    def get_train_dataloader(self) -> DataLoader:
        return DataLoader(
            self.data.train, batch_sampler=self.batches, collate_fn=lambda examples: pad_batch(examples, self.pad)
        )

    def training_step(self, model: Any, inputs: dict[str, Any], num_items_in_batch: Any = None) -> torch.Tensor:
        tokens = int(inputs["attention_mask"].sum())
        loss = super().training_step(model, inputs, num_items_in_batch)
        if not torch.isfinite(loss):
            raise DataError(
                f"finetune: the loss is {loss.item()} in step {self.state.global_step + 1}; lower learning_rate"
                + (", or use precision: bf16" if self.settings.precision == "fp16" else "")
            )
        self.course.add(loss, tokens)
        return loss

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """On the validation split: `valid_loss`, for labels also `valid_accuracy`."""
        metrics = validate(self.model, self.data, self.settings.eval_batch_size, self.pad)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _save(self, output_dir: str | None = None, state_dict: dict[str, Any] | None = None) -> None:
        super()._save(output_dir, state_dict)
        # A pickle that nothing here reads.
        Path(output_dir or self.args.output_dir, "training_args.bin").unlink(missing_ok=True)


def validate(model: Any, data: Data, batch_size: int, pad: int) -> dict[str, float]:
    if data.kind == "dialogue":
        nats, counts = answer_nats(model, data.valid, batch_size, pad)
        return {"valid_loss": float(nats.sum() / counts.sum())}
    logits = torch.from_numpy(label_logits(model, data.valid, batch_size, pad))
    labels = torch.tensor(data.valid.labels)
    loss = cross_entropy(logits.double(), labels).item()
    return {"valid_loss": loss, "valid_accuracy": (logits.argmax(dim=1) == labels).double().mean().item()}


def _label_loss(outputs: Any, labels: torch.Tensor, num_items_in_batch: Any = None) -> torch.Tensor:
    """outputs.logits: [batch, labels]; labels: [batch]. The count is that of the whole optimizer step."""
    return cross_entropy(outputs.logits.float(), labels, reduction="sum") / num_items_in_batch


def _dialogue_loss(outputs: Any, labels: torch.Tensor, num_items_in_batch: Any = None) -> torch.Tensor:
    """outputs.logits: [batch, length, vocabulary]; labels: [batch, length], the first column -100, so that all that count have a prediction."""
    return next_token_losses(outputs.logits, labels).sum() / num_items_in_batch


def training_arguments(
    job: "Job", settings: Finetuning, total: int, device: torch.device
) -> tuple[TrainingArguments, int]:
    """And the micro-batch: all examples of a step at once unless the profile says otherwise."""
    on_cpu = device.type == "cpu"
    if settings.precision == "fp16" and on_cpu:
        raise DataError("finetuning: precision fp16 needs a GPU; use bf16 or fp32 on a CPU")
    micro_batch = min(job.options.get("micro_batch") or settings.train_batch_size, settings.train_batch_size)
    arguments = TrainingArguments(
        output_dir=str(job.state),
        per_device_train_batch_size=micro_batch,
        gradient_accumulation_steps=-(-settings.train_batch_size // micro_batch),
        max_steps=total,
        learning_rate=settings.learning_rate,
        lr_scheduler_type=settings.lr_scheduler_type,
        warmup_steps=settings.warmup_steps,
        weight_decay=settings.weight_decay,
        max_grad_norm=settings.max_grad_norm,
        bf16=settings.precision == "bf16",
        fp16=settings.precision == "fp16",
        seed=settings.seed,
        use_cpu=on_cpu,
        dataloader_pin_memory=not on_cpu,
        # When to log, validate and save is decided by Course.
        logging_strategy="no",
        eval_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        remove_unused_columns=False,
    )
    # Several visible GPUs would make Trainer split batches over them with DataParallel; these models need one.
    arguments._n_gpu = min(arguments.n_gpu, 1)
    return arguments, micro_batch
