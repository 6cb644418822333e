"""The training loop: steps from where the state stands to the end, or until asked to stop.

It is the same loop for one process and for many. In every step the processes add up, in one small all-reduce, the loss,
the tokens, and whether any of them was asked to stop, so that all save and leave after the same step.
"""

import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

import numpy as np
import torch

from smelt.plan.errors import SmeltError
from smelt.plan.job import Job
from smelt.plan.progress import Progress
from smelt.plan.settings.pretraining import Pretraining
from smelt.training.batches import Batches
from smelt.training.checkpoint import Checkpoints
from smelt.training.engine import Engine
from smelt.training.metrics import Metrics
from smelt.training.objective import IGNORED, causal_labels, loss_sum
from smelt.training.schedule import Schedule
from smelt.training.world import World


class TrainingError(SmeltError):
    """Training that can't go on; the message names the steps and what to change."""


@dataclass
class Standing:
    """Where the training stands: all that a checkpoint keeps beside the engine and the random state."""

    step: int = 0
    """Updates done."""
    loss: float = 0.0
    """Sum of the losses of the steps since the last point of the curve."""
    predicted: int = 0
    """Tokens that this sum is over."""
    skipped: list[int] = field(default_factory=list)
    """Steps whose loss or gradient was not finite."""
    valid_loss: float | None = None


@dataclass
class Loop:
    """Everything that a training consists of, and `run`."""

    job: Job
    settings: Pretraining
    engine: Engine
    batches: Batches
    validate: Callable[[], float]
    """Mean loss over the validation sequences, the same on all processes."""
    schedule: Schedule
    checkpoints: Checkpoints
    world: World
    standing: Standing
    metrics: Metrics | None
    """None on all processes but the leader."""
    started: float = field(default_factory=time.monotonic)
    """When the attempt began, for the time budget."""
    rates: list[float] = field(default_factory=list)
    """Tokens per second, between points of the curve."""
    _clock: float = 0.0
    _saved_at: float = 0.0
    _rated: int = 0

    @property
    def tokens_per_step(self) -> int:
        return self.settings.train_batch_size * self.settings.sequence_length

    def run(self) -> None:
        """Train to the last step and save.

        Raises:
            Interrupted: after a save, if a signal or the time budget asked to stop.
            TrainingError: if too many steps were not finite.
        """
        self._clock = self._saved_at = time.monotonic()
        self._rated = self.standing.step
        leader, total = self.world.leader, self.schedule.total
        shown = Progress(self.job, total, "steps", initial=self.standing.step) if leader else contextlib.nullcontext()
        with shown as progress:
            while self.standing.step < total:
                stop, save = self._step(progress)
                if stop or save or self.standing.step == total:
                    self._save()
                if stop and self.standing.step < total:
                    self.job.stop(f"saved at step {self.standing.step} of {total}")

    def _step(self, progress: Progress | None) -> tuple[bool, bool]:
        """One update with all that follows it. Returns whether to stop, and whether to save."""
        loss, predicted, norm, rate = self._update()
        totals = self.world.total([loss, float(predicted), *self._requests()])
        self._count(*totals[:2], norm)
        step = self.standing.step
        if step % self.settings.logging_steps == 0 or step == self.schedule.total:
            self._log(progress, norm, rate)
        elif progress:
            progress.update(1)
        if step == self.schedule.total or (self.settings.eval_steps and step % self.settings.eval_steps == 0):
            self._evaluate(progress)
        return totals[2] > 0, totals[3] > 0

    def _update(self) -> tuple[float, int, float, float]:
        """Forward, backward and optimizer: this process's loss and number of tokens, gradient norm, learning rate."""
        self.engine.train()
        step = self.standing.step
        division = self.batches.division
        # Every sequence predicts all its tokens but the first.
        whole = self.settings.train_batch_size * (self.settings.sequence_length - 1)
        total = torch.zeros((), device=self.world.device)
        for tokens in self.batches.micro_batches(step):
            loss = loss_sum(self.engine.logits(tokens), causal_labels(tokens))
            self.engine.backward(loss / whole)
            total += loss.detach()
        rate = self.schedule(step)
        norm = self.engine.update(rate)
        return float(total), whole // division.world, norm, rate

    def _requests(self) -> tuple[float, float]:
        """Of this process: to stop, to save. The leader's clock decides for all."""
        stop, save = self.job.stopping, False
        if self.world.leader:
            now = time.monotonic()
            budget = 60 * self.job.options.get("budget_minutes", 0)
            stop = stop or bool(budget and now - self.started >= budget)
            save = now - self._saved_at >= 60 * self.job.options.get("save_minutes", 10)
        return float(stop), float(save)

    def _count(self, loss: float, predicted: float, norm: float) -> None:
        standing = self.standing
        standing.step += 1
        if math.isfinite(loss) and math.isfinite(norm):
            standing.loss += loss
            standing.predicted += round(predicted)
            return
        standing.skipped.append(standing.step)
        if self.world.leader:
            self.job.say(
                f"step {standing.step}: loss {loss / predicted:.4g}, gradient norm {norm:.4g}: not finite, skipped"
            )
        if len(standing.skipped) > self.settings.max_skipped_steps:
            size, last = self.settings.train_batch_size, standing.step
            raise TrainingError(
                f"the loss or gradient was not finite in {len(standing.skipped)} steps ({_few(standing.skipped)}; step {last} "
                f"is positions {(last - 1) * size:,} to {last * size - 1:,} of the data order); max_skipped_steps is "
                f"{self.settings.max_skipped_steps}. Lower pretraining.learning_rate, lengthen warmup_steps, or set "
                f"max_grad_norm (now {self.settings.max_grad_norm:g})" + self._precision_advice()
            )

    def _precision_advice(self) -> str:
        return "; or take precision fp32 instead of bf16" if self.settings.precision == "bf16" else ""

    def _log(self, progress: Progress | None, norm: float, rate: float) -> None:
        """A point of the curve: the mean loss since the last one."""
        standing = self.standing
        loss = standing.loss / standing.predicted if standing.predicted else None
        standing.loss, standing.predicted = 0.0, 0
        now = time.monotonic()
        speed = (standing.step - self._rated) * self.tokens_per_step / max(now - self._clock, 1e-9)
        self._clock, self._rated = now, standing.step
        self.rates.append(speed)
        if self.metrics is None or progress is None:
            return
        self.metrics.add(
            standing.step,
            standing.step * self.tokens_per_step,
            loss=loss,
            learning_rate=rate,
            grad_norm=norm if math.isfinite(norm) else None,
            tokens_per_second=round(speed, 1),
        )
        progress.update(1, loss=loss if loss is not None else math.nan, tokens_per_second=speed)

    def _evaluate(self, progress: Progress | None) -> None:
        started = time.monotonic()
        self.engine.train(False)
        self.standing.valid_loss = self.validate()
        if self.metrics and progress:
            step = self.standing.step
            self.metrics.add(step, step * self.tokens_per_step, valid_loss=self.standing.valid_loss)
            progress.update(0, valid_loss=self.standing.valid_loss)
        # The rate is that of training alone.
        self._clock += time.monotonic() - started

    def _save(self) -> None:
        started = time.monotonic()
        if self.metrics:
            self.metrics.sync()
        self.checkpoints.save(self.standing.step, asdict(self.standing))
        self._saved_at = time.monotonic()
        self._clock += self._saved_at - started


def _few(steps: list[int]) -> str:
    """The last ten of them."""
    shown = ", ".join(map(str, steps[-10:]))
    return shown if len(steps) <= 10 else f"… {shown}"


@torch.no_grad()
def mean_loss(engine: Engine, rows: np.ndarray, micro_batch: int, world: World) -> float:
    """Mean negative log-likelihood in nats of the predicted tokens of `rows` ([sequences, length] int64), over all processes.

    Every process makes the same number of forward passes, as partitioned weights require; what fills up does not count.
    """
    share = -(-len(rows) // world.size)
    index = np.arange(share) + world.rank * share
    total = 0.0
    for part in np.split(index, range(micro_batch, share, micro_batch)):
        tokens = torch.from_numpy(rows[part.clip(max=len(rows) - 1)])
        labels = causal_labels(tokens)
        labels[torch.from_numpy(part >= len(rows))] = IGNORED
        total += float(loss_sum(engine.logits(tokens.to(world.device)), labels.to(world.device)))
    (summed,) = world.total([total])
    return summed / (len(rows) * (rows.shape[1] - 1))
