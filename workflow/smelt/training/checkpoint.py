"""Checkpoints: numbered folders, each complete only when its marker is there, which is written last.

    state/checkpoints/0000000120/   engine/…, random-00000.pt … one for each process, COMPLETE

COMPLETE holds the step, who wrote it, and the loop's own counters. The newest whole checkpoint is taken; what is broken is
named and passed over.
"""

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from smelt.plan.errors import DataError, SmeltError
from smelt.training import marker
from smelt.training.engine import Engine
from smelt.training.world import World

KEPT = 2
"""Whole checkpoints that are kept: the newest, and one more should the disk lose it."""
KINDS: marker.Kinds = {"step": int, "processes": int, "zero_stage": int, "progress": dict}


@dataclass
class Checkpoints:
    """The checkpoints of one training. Every process must call `save` and `resume`."""

    folder: Path
    engine: Engine
    world: World
    say: Callable[[str], None]
    seconds: float = 0.0
    """Time spent on saving."""
    saved: int = -1
    """The step of the newest whole checkpoint, -1 if there is none."""

    def save(self, step: int, progress: dict[str, Any]) -> None:
        """Write a checkpoint of the state after `step` updates; `progress` is JSON of the loop's own.

        Raises DataError if it can't be written; the one before is kept.
        """
        started = time.monotonic()
        folder = self._path(step)
        try:
            if self.world.leader and folder.exists():
                shutil.rmtree(folder)
            self.world.barrier()
            folder.mkdir(parents=True, exist_ok=True)
            torch.save(_random_state(self.world.device), folder / f"random-{self.world.rank:05}.pt")
            self.engine.save(folder)
            self.world.barrier()
            if self.world.leader:
                about = {"step": step, "processes": self.world.size, "zero_stage": self.engine.zero_stage}
                marker.mark(folder, {**about, "progress": progress})
                self._prune()
        # torch.save tells a full disk by a RuntimeError.
        except (OSError, RuntimeError) as error:
            kept = f"the one of step {self.saved} is kept" if self.saved >= 0 else "there is none before it"
            raise DataError(
                f"{folder}: the checkpoint can't be written ({error}); {kept}. Make room or mend the folder, then run again"
            ) from error
        self.world.barrier()
        self.saved = step
        self.seconds += time.monotonic() - started

    def resume(self) -> tuple[int, dict[str, Any]] | None:
        """Load the newest whole checkpoint: its step and progress, or None if there is none.

        Raises SmeltError if it was written by another number of processes or at another ZeRO stage.
        """
        # The leader looks, so that all processes take the same one.
        found = self._newest() if self.world.leader else -1
        step = round(self.world.total([float(found if self.world.leader else 0)])[0])
        if step < 0:
            return None
        folder = self._path(step)
        about = marker.read(folder, KINDS)
        written, wanted = (about["processes"], about["zero_stage"]), (self.world.size, self.engine.zero_stage)
        if written != wanted:
            raise SmeltError(
                f"{folder}: written by {written[0]} processes at ZeRO stage {written[1]}, this run has {wanted[0]} at stage "
                f"{wanted[1]}: run as before, or move {self.folder.parent} aside to start from the beginning"
            )
        self.engine.load(folder)
        _set_random_state(folder / f"random-{self.world.rank:05}.pt", self.world.device)
        self.saved = step
        return step, about["progress"]

    def _path(self, step: int) -> Path:
        return self.folder / f"{step:010}"

    def _steps(self) -> list[int]:
        """Newest first."""
        found = [int(path.name) for path in self.folder.glob("*") if path.is_dir() and path.name.isdecimal()]
        return sorted(found, reverse=True)

    def _newest(self) -> int:
        for step in self._steps():
            problem = marker.broken(self._path(step), KINDS)
            if problem is None:
                return step
            self.say(f"checkpoint of step {step} passed over: {problem}")
        return -1

    def _prune(self) -> None:
        """Remove all but the newest whole ones. A broken one goes when a newer one is whole."""
        whole = [step for step in self._steps() if marker.is_marked(self._path(step))][:KEPT]
        for step in self._steps():
            if step not in whole and step < whole[0]:
                shutil.rmtree(self._path(step))


def _random_state(device: torch.device) -> dict[str, torch.Tensor]:
    """Of the generators that dropout draws from."""
    state = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def _set_random_state(path: Path, device: torch.device) -> None:
    state = torch.load(path, weights_only=True)
    torch.set_rng_state(state["cpu"])
    if "cuda" in state and device.type == "cuda":
        torch.cuda.set_rng_state(state["cuda"], device)
