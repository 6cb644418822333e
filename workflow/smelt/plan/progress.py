"""Progress of long work: a bar on a terminal, a plain line every ten seconds elsewhere (a log, a job under Snakemake)."""

import os
import time
from types import TracebackType
from typing import Any, Self

from smelt.plan.job import Job

SECONDS_BETWEEN_LINES = 10.0


class Progress:
    """`with Progress(job, total, "documents") as progress: progress.update(1, loss=2.5)`.

    The rate counts what this process did: with `initial` a resumed run starts there and its time left stays true.
    """

    def __init__(self, job: Job, total: int, unit: str, initial: int = 0) -> None:
        self.job, self.total, self.unit = job, total, unit
        self.initial = self.done = initial
        self.shown: dict[str, Any] = {}
        self.started = self.told = time.monotonic()
        # Jobs of one workflow share a terminal: several bars would overwrite each other.
        self._bar = _Bar(job, total, unit) if job.terminal.isatty() and "SMELT_WATCH_PARENT" not in os.environ else None

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start(self.done)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()
        if kind is None:
            self.job.say(self.line())

    def update(self, count: int = 1, **shown: Any) -> None:
        """Add `count` units; `shown` are values to print along (they stay until replaced)."""
        self.done += count
        self.shown.update(shown)
        now = time.monotonic()
        if self._bar:
            self._bar.update(self.done, self._extra())
        elif now - self.told >= SECONDS_BETWEEN_LINES and self.done < self.total:  # the last line is told at the end
            self.told = now
            self.job.say(self.line())

    @property
    def rate(self) -> float:
        """Units a second, of this process."""
        return (self.done - self.initial) / max(time.monotonic() - self.started, 1e-9)

    def line(self) -> str:
        left = (self.total - self.done) / self.rate if self.done > self.initial else float("nan")
        ending = (
            f"{duration(left)} left" if self.done < self.total else f"in {duration(time.monotonic() - self.started)}"
        )
        return "  ".join(filter(None, [f"{self.done:,} of {self.total:,} {self.unit}", self._extra(), ending]))

    def _extra(self) -> str:
        return "  ".join(f"{name.replace('_', ' ')} {shorten(value)}" for name, value in self.shown.items())


class _Bar:
    """rich's bar, imported only where there is a terminal to draw on."""

    def __init__(self, job: Job, total: int, unit: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn(f"{job.stage} {job.id}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(unit),
            TextColumn("{task.fields[extra]}"),
            TimeRemainingColumn(),
            console=Console(file=job.terminal),
        )
        self._total = total

    def start(self, done: int) -> None:
        self._progress.start()
        self._task = self._progress.add_task("", total=self._total, completed=done, extra="")

    def update(self, done: int, extra: str) -> None:
        self._progress.update(self._task, completed=done, extra=extra)

    def stop(self) -> None:
        self._progress.stop()


def shorten(value: Any) -> str:
    """A number as a person reads it: 12,345 · 3.142 · 3.0e-04."""
    if isinstance(value, float):
        if value and abs(value) < 0.001:
            return f"{value:.1e}"
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def duration(seconds: float) -> str:
    """3:05 · 2:03:04; a dash for what is not known."""
    if seconds != seconds or seconds == float("inf"):
        return "–"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
