"""The record of a training: `metrics.jsonl`, one line a point, which people watch, and the same as TensorBoard events.

A resumed training first drops what was recorded after its checkpoint, so that the record is that of one training.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

from smelt.plan.manifest import canonical, write_atomically

TIMED = ("total", "tokens_per_second", "time")
"""Keys of a line that are not part of the curve: they differ between equal runs."""


class Metrics:
    """Appends to `metrics.jsonl` in `folder`. For the leader only."""

    def __init__(self, folder: Path, step: int, total: int) -> None:
        """Keep the lines up to `step`, the step of the checkpoint that training goes on from."""
        from torch.utils.tensorboard import SummaryWriter

        self.path, self._total = folder / "metrics.jsonl", total
        self.rows = [row for row in _rows(self.path) if row["step"] <= step]
        write_atomically(self.path, "".join(canonical(row) + "\n" for row in self.rows))
        self._file = self.path.open("a", encoding="utf-8")
        self._events = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1 if step else None)

    def add(self, step: int, tokens: int, **values: float | None) -> None:
        """One point. What is None is left out."""
        known = {name: value for name, value in values.items() if value is not None}
        row = {"step": step, "total": self._total, "tokens": tokens, "time": round(time.time(), 3), **known}
        self.rows.append(row)
        self._file.write(canonical(row) + "\n")
        self._file.flush()
        for name, value in known.items():
            self._events.add_scalar(name, value, step)

    def sync(self) -> None:
        """Bring the lines to the disk. Before a checkpoint is marked as whole: a resume drops only what came after it."""
        os.fsync(self._file.fileno())

    def curve(self) -> list[dict[str, Any]]:
        """The points without what is timed: equal for equal trainings."""
        return [{name: value for name, value in row.items() if name not in TIMED} for row in self.rows]

    def close(self) -> None:
        self._file.close()
        self._events.close()


def _rows(path: Path) -> list[dict[str, Any]]:
    """The points of a record up to the first that is none: a kill cuts the last line off, a power cut leaves zeros."""
    found: list[dict[str, Any]] = []
    if not path.exists():
        return found
    for line in path.read_bytes().split(b"\n")[:-1]:
        try:
            row = json.loads(line)
        except ValueError:
            break
        if not isinstance(row, dict) or not isinstance(row.get("step"), int):
            break
        found.append(row)
    return found
