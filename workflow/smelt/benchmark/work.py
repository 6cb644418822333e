"""What the processes of the table are given. Imports no torch: the process that hands it out needs none."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from smelt.plan.settings.finetuning import Lora


@dataclass(frozen=True)
class Cell:
    precision: str
    method: str
    batch: int
    """Sequences of a step."""
    note: str = ""


@dataclass(frozen=True)
class Work:
    cell: Cell
    convert: Path
    """The manifest of the converted model."""
    tokens: np.ndarray
    """[sequences, length] int64."""
    steps: int
    """Of a round."""
    lora: Lora
    seed: int
    cpu_threads: int
    gpus: int


@dataclass(frozen=True)
class Failure:
    """Answered in place of a time or a size."""

    text: str
