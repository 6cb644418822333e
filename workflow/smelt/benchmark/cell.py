"""One cell of the table, in a process of its own: it holds a model and times training steps when told to.

Imported once by a server from which the processes are forked, so that they need not import torch again, and so that what
they take in memory beyond the server is the model and its training.
"""

import signal
import time
from contextlib import nullcontext
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import peft  # noqa: F401 - imported before the fork
import torch

from smelt.benchmark.work import Failure, Work
from smelt.models.loading import load_base
from smelt.models.lora import add_lora
from smelt.plan.manifest import Manifest
from smelt.training.compute import prepare

MEGABYTE = 1e6
WEIGHTS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def serve(connection: Connection, work: Work) -> None:
    """Answer each "round" with the seconds of a round, "about" with memory and size; end when the other side does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    trainer = None
    try:
        while True:
            question = connection.recv()
            trainer = trainer or Steps(work)
            connection.send(trainer.round() if question == "round" else trainer.about())
    except EOFError:
        return
    except Exception as error:
        connection.send(Failure(f"{type(error).__name__}: {error}"))
        raise


class Steps:
    """A model with its optimizer, ready for steps."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.device = prepare(work.cpu_threads, work.gpus)
        torch.manual_seed(work.seed)
        _first_use()
        self._memory = Memory(self.device)
        model = load_base(Manifest.read(work.convert), [], None)
        if work.cell.method == "lora":
            model = add_lora(model, work.lora, "CAUSAL_LM")
        self.model = model.to(self.device).train()
        trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.trainable = sum(parameter.numel() for parameter in trained)
        self.optimizer = torch.optim.AdamW(trained, lr=1e-5, fused=True)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=work.cell.precision == "fp16")
        self.done = 0
        self._step()

    def round(self) -> float:
        """Seconds of `work.steps` steps."""
        _wait(self.device)
        started = time.perf_counter()
        for _ in range(self.work.steps):
            self._step()
        _wait(self.device)
        return time.perf_counter() - started

    def about(self) -> dict[str, Any]:
        peak = self._memory.peak()
        return {
            "peak_memory_mb": None if peak is None else round(peak / MEGABYTE, 1),
            "trainable_parameters": self.trainable,
            "device": torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "CPU",
        }

    def _step(self) -> None:
        rows = (np.arange(self.work.cell.batch) + self.done) % len(self.work.tokens)
        tokens = torch.from_numpy(self.work.tokens[rows]).to(self.device)
        kind = WEIGHTS[self.work.cell.precision]
        half = torch.autocast(self.device.type, dtype=kind) if kind != torch.float32 else nullcontext()
        with half:
            loss = self.model(input_ids=tokens, labels=tokens, use_cache=False).loss
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        self.done += 1


class Memory:
    """The most that this process took since then: of the GPU's memory, or of main memory beyond what it had."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
            return
        self.before = None
        if RESET.exists() and STATUS.exists():
            RESET.write_text("5")  # the kernel forgets the peak (man 5 proc)
            self.before = _resident("VmRSS")

    def peak(self) -> float | None:
        """Bytes; None where the system does not tell."""
        if self.device.type == "cuda":
            return float(torch.cuda.max_memory_allocated(self.device))
        return None if self.before is None else _resident("VmHWM") - self.before


RESET, STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


def _resident(name: str) -> float:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(name + ":"))
    return 1024.0 * int(line.split()[1])


def _first_use() -> None:
    """A step of a network of one weight: torch imports some of its parts at first use, and these are not what is measured."""
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.AdamW([weight], fused=True)
    (weight * 2).sum().backward()
    optimizer.step()


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
