"""Which sequences a process takes in which step: a function of the step alone, so that nothing of it needs saving."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from smelt.plan.errors import SmeltError
from smelt.training.world import World

MICRO_BATCH_TOKENS = 16_384
"""Most tokens of a micro-batch that is chosen and not given."""


class Sequences(Protocol):
    """What `TokenStream.sequences` returns."""

    def __len__(self) -> int: ...

    def __getitems__(self, indices: np.ndarray) -> np.ndarray: ...


class Positions(Protocol):
    """What `Order` is: a permutation of the samples, epoch after epoch."""

    def positions(self, start: int, stop: int) -> np.ndarray: ...


@dataclass(frozen=True)
class Division:
    """How a global batch is divided: `world` processes × `accumulation` micro-batches × `micro_batch` sequences."""

    train_batch_size: int
    world: int
    micro_batch: int
    accumulation: int

    @classmethod
    def of(cls, train_batch_size: int, world: int, micro_batch: int, sequence_length: int) -> "Division":
        """`micro_batch` 0 takes the largest that divides a process's share and has at most MICRO_BATCH_TOKENS tokens.

        Raises:
            SmeltError: if the batch can't be divided so, naming what could be.
        """
        if train_batch_size % world:
            fitting = [n for n in range(1, world + 1) if train_batch_size % n == 0]
            raise SmeltError(
                f"pretraining.train_batch_size {train_batch_size} can't be shared by {world} processes: "
                f"take {fitting[-1]} processes, or a multiple of {world} as the batch"
            )
        share = train_batch_size // world
        divisors = [n for n in range(1, share + 1) if share % n == 0]
        if not micro_batch:
            micro_batch = max((n for n in divisors if n * sequence_length <= MICRO_BATCH_TOKENS), default=1)
        elif micro_batch not in divisors:
            raise SmeltError(
                f"micro_batch {micro_batch} does not divide the {share} sequences that each of {world} processes takes of "
                f"train_batch_size {train_batch_size}: take one of {', '.join(map(str, divisors))}"
            )
        return cls(train_batch_size, world, micro_batch, share // micro_batch)


@dataclass(frozen=True)
class Batches:
    """Step `s` is positions [s·B, (s+1)·B) of the order, whatever the number of processes."""

    sequences: Sequences
    order: Positions
    division: Division
    world: World

    def positions(self, step: int) -> np.ndarray:
        """The samples of this process in `step`: [batch / world] int64."""
        size = self.division.train_batch_size
        share = size // self.division.world
        start = step * size + self.world.rank * share
        return self.order.positions(start, start + share)

    def micro_batches(self, step: int) -> Iterator[torch.Tensor]:
        """Token ids [micro_batch, length] int64, `accumulation` of them."""
        rows = torch.from_numpy(self.sequences.__getitems__(self.positions(step)))
        return iter(rows.to(self.world.device).split(self.division.micro_batch))
