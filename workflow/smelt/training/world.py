"""The processes that train together: who they are, what they agree on.

Under `torchrun` or the like RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT say so; without them the process is
alone, and needs neither a port nor a launcher.
"""

import os
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed

from smelt.plan.errors import SmeltError

PATIENCE = timedelta(minutes=30)
"""How long a process waits for the others in a collective call: the slowest is the hashing of a checkpoint."""


@dataclass(frozen=True)
class World:
    """`rank` of `size` processes; `device` is what this one computes on."""

    rank: int
    size: int
    device: torch.device

    @classmethod
    def join(cls, gpu: bool, store: torch.distributed.Store | None = None) -> "World":
        """Meet the other processes: through `store` if it is given, else as the environment says, else alone.

        `gpu` says whether to compute on a GPU. Raises SmeltError for a GPU that is not there.
        """
        rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
        local = int(os.environ.get("LOCAL_RANK", 0))
        device = torch.device("cpu")
        if gpu:
            if torch.cuda.device_count() <= local:
                raise SmeltError(
                    f"process {local} of this machine has no GPU: torch sees {torch.cuda.device_count()}; ask for fewer"
                )
            device = torch.device("cuda", local)
            torch.cuda.set_device(device)
            # On a GPU sums by atomic additions come in any order; on a CPU the same threads add in the same order anyway.
            torch.use_deterministic_algorithms(True, warn_only=True)
            # It would otherwise write NaN into all memory that torch.empty returns.
            torch.utils.deterministic.fill_uninitialized_memory = False
        if not torch.distributed.is_initialized():
            if store is None and size == 1:
                store = torch.distributed.HashStore()
            backend = "nccl" if gpu else "gloo"
            if store is None:
                torch.distributed.init_process_group(backend, timeout=PATIENCE)
            else:
                torch.distributed.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=PATIENCE)
        return cls(rank, size, device)

    @property
    def leader(self) -> bool:
        """Of all processes the one that writes files and speaks."""
        return self.rank == 0

    def total(self, values: list[float]) -> list[float]:
        """Element-wise sums over all processes, in float64. Every process must call it."""
        if self.size == 1:
            return values
        numbers = torch.tensor(values, dtype=torch.float64, device=self.device)
        torch.distributed.all_reduce(numbers)
        return numbers.tolist()

    def barrier(self) -> None:
        """Wait until every process is here."""
        self.total([0.0])
