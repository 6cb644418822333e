"""The course of a training: its curve, the best epoch, when to validate, save and stop. A callback of transformers' Trainer.

All that it decides by is in `position()`, which lies in every checkpoint: a resumed training goes on as if nothing had been.
"""

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from smelt.finetune.checkpoints import Checkpoints
from smelt.plan.job import Job
from smelt.plan.progress import Progress
from smelt.plan.settings.finetuning import Finetuning
from smelt.training.metrics import Metrics


class Course(TrainerCallback):
    """Validates and saves after each epoch; saves in between every `save_minutes` and when asked to stop."""

    def __init__(self, job: Job, settings: Finetuning, steps_per_epoch: int, total: int, kind: str) -> None:
        self.job, self.settings = job, settings
        self.steps_per_epoch, self.total = steps_per_epoch, total
        self.criterion, self.sign = ("valid_accuracy", 1) if kind == "classification" else ("valid_loss", -1)
        self.checkpoints = Checkpoints(job)
        self.curve: list[dict[str, Any]] = []
        self.losses: list[float] = []  # of the steps since the last point of the curve
        self.tokens = 0
        self.best: dict[str, Any] | None = None
        self.epochs_without_gain = 0
        self.finished = False
        self.left = False
        self.started = self.saved = time.monotonic()
        self._step_loss: Any = 0.0
        self._learning_rate = 0.0
        self._tokens_at_start = 0

    def position(self) -> dict[str, Any]:
        names = ("curve", "losses", "tokens", "best", "epochs_without_gain", "finished")
        return {name: getattr(self, name) for name in names}

    def restore(self, position: dict[str, Any]) -> None:
        for name, value in position.items():
            setattr(self, name, value)
        self._tokens_at_start = self.tokens

    @contextlib.contextmanager
    def recorded(self, step: int) -> Iterator[None]:
        """While training goes on from `step`: show progress and write `metrics.jsonl`."""
        self.metrics = Metrics(self.job.state, step, self.total)
        with contextlib.closing(self.metrics), Progress(self.job, self.total, "steps", initial=step) as self.progress:
            yield

    def add(self, loss: Any, tokens: int) -> None:
        """Of one micro-batch: its share of the step's loss, and how many tokens it held."""
        self._step_loss = self._step_loss + loss
        self.tokens += tokens

    def _at_end_of_epoch(self, step: int) -> bool:
        return step % self.steps_per_epoch == 0 or step >= self.total

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **more: Any
    ) -> None:
        self._learning_rate = more["optimizer"].param_groups[0]["lr"]

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **more: Any) -> None:
        self.losses.append(self._step_loss)
        self._step_loss = 0.0
        step = state.global_step
        if step % self.settings.logging_steps == 0 or step >= self.total:
            self._log(step)
        self.progress.update(1)
        # The end of an epoch validates and saves anyway; a checkpoint before that would lose the validation.
        if self._at_end_of_epoch(step):
            return
        now = time.monotonic()
        if self.job.stopping or self._out_of_time(now):
            self.left = control.should_save = control.should_training_stop = True
        elif now - self.saved >= self.job.options.get("save_minutes", 10) * 60:
            control.should_save = True

    def on_epoch_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **more: Any) -> None:
        if self.left:
            return
        control.should_evaluate = control.should_save = True
        self.finished = state.global_step >= self.total

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: dict[str, float],
        **more: Any,
    ) -> None:
        epoch = -(-state.global_step // self.steps_per_epoch)
        self.curve.append({"step": state.global_step, "tokens": self.tokens, "epoch": epoch, **metrics})
        self.metrics.add(state.global_step, self.tokens, **metrics)
        self.job.say(
            f"epoch {epoch}: " + ", ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in metrics.items())
        )
        value = metrics[self.criterion]
        if self.best is None or self.sign * value > self.sign * self.best["value"]:
            self.best = {"step": state.global_step, "epoch": epoch, "value": value}
            self.epochs_without_gain = 0
        else:
            self.epochs_without_gain += 1
        patience = self.settings.early_stopping_patience
        if patience and self.epochs_without_gain >= patience and not self.finished:
            self.job.say(f"no gain for {patience} epochs: stopping early")
            self.finished = True
            control.should_training_stop = True

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **more: Any) -> None:
        self.losses = [float(loss) for loss in self.losses]
        self.checkpoints.finish(state.global_step, self.position())
        self.saved = time.monotonic()
        if not self.finished and (self.job.stopping or self._out_of_time(self.saved)):
            self.left = control.should_training_stop = True

    def _out_of_time(self, now: float) -> bool:
        budget = self.job.options.get("budget_minutes", 0)
        return bool(budget) and now - self.started >= budget * 60

    def _log(self, step: int) -> None:
        loss = sum(float(loss) for loss in self.losses) / len(self.losses)
        self.losses = []
        self.curve.append({"step": step, "tokens": self.tokens, "loss": loss, "learning_rate": self._learning_rate})
        rate = (self.tokens - self._tokens_at_start) / (time.monotonic() - self.started)
        values = {"loss": loss, "learning_rate": self._learning_rate, "tokens_per_second": round(rate, 1)}
        self.metrics.add(step, self.tokens, **values)
        self.progress.shown.update(loss=loss, tokens_per_second=rate)
