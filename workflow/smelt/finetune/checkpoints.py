"""Checkpoints in state/: `checkpoint-<step>/` as transformers writes it, whole when its marker says so."""

import shutil
from pathlib import Path
from typing import Any

from smelt.plan.job import Job
from smelt.training import marker

KEPT = 2
"""Newest whole checkpoints that are kept: one to go on from, one more should it turn out to be damaged."""
KINDS: marker.Kinds = {"position": dict}


class Checkpoints:
    """Those of one node."""

    def __init__(self, job: Job) -> None:
        self.job, self.directory = job, job.state

    def path(self, step: int) -> Path:
        return self.directory / f"checkpoint-{step}"

    def finish(self, step: int, position: dict[str, Any]) -> None:
        """Mark the checkpoint that was just written as whole; `position` is what its training had seen. Then remove older ones."""
        marker.mark(self.path(step), {"position": position})
        self._prune(step)

    def newest(self) -> tuple[Path, dict[str, Any]] | None:
        """The newest whole checkpoint and its position; damaged ones are named and passed over."""
        for step in sorted(self._steps(), reverse=True):
            path = self.path(step)
            problem = marker.broken(path, KINDS)
            if problem is None:
                position = marker.read(path, KINDS)["position"]
                best = self._best(position, step)
                if best == step or (problem := marker.broken(self.path(best), KINDS)) is None:
                    return path, position
                problem = f"{self.path(best).name}, the best before it, is unusable: {problem}"
            self.job.say(f"{path.name} is passed over: {problem}")
        return None

    def _steps(self) -> list[int]:
        names = (path.name.removeprefix("checkpoint-") for path in self.directory.glob("checkpoint-*"))
        return [int(name) for name in names if name.isdigit()]

    def _best(self, position: dict[str, Any], step: int) -> int:
        """The checkpoint with the best weights that had been seen at `step`."""
        return position["best"]["step"] if position.get("best") else step

    def _prune(self, step: int) -> None:
        whole = [each for each in self._steps() if each <= step and marker.is_marked(self.path(each))]
        kept = set(sorted(whole)[-KEPT:])
        for each in sorted(kept):
            try:
                kept.add(self._best(marker.read(self.path(each), KINDS)["position"], each))
            except ValueError:
                continue  # damaged, and passed over when it was looked at
        for other in self._steps():
            if other not in kept:
                shutil.rmtree(self.path(other))
