"""The learning rate as a pure function of the step: nothing to save, nothing to restore."""

import math
from dataclasses import dataclass

from smelt.plan.settings.pretraining import Pretraining


@dataclass(frozen=True)
class Schedule:
    """Linear warm-up, then cosine, linear or constant. Step 0 is the first update and already moves the weights."""

    kind: str
    peak: float
    warmup: int
    total: int
    floor: float
    """Where the decay ends, as a share of `peak`."""

    @classmethod
    def of(cls, settings: Pretraining, total: int) -> "Schedule":
        share = settings.warmup_steps < 1
        warmup = round(settings.warmup_steps * total) if share else int(settings.warmup_steps)
        return cls(settings.lr_scheduler_type, settings.learning_rate, min(warmup, total), total, settings.min_lr_rate)

    def __call__(self, step: int) -> float:
        """The rate of update `step` (from 0): (step + 1) / (warmup + 1) of the peak in the warm-up, the peak at `warmup`."""
        if step < self.warmup:
            return self.peak * (step + 1) / (self.warmup + 1)
        progress = (step - self.warmup) / max(1, self.total - self.warmup)
        if self.kind == "cosine":
            left = 0.5 * (1 + math.cos(math.pi * progress))
        elif self.kind == "linear":
            left = 1 - progress
        else:
            return self.peak
        return self.peak * (self.floor + (1 - self.floor) * left)
