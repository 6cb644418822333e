"""One process for each GPU of a machine: this one becomes the first, and starts the others as the same command.

Under `torchrun`, or whatever else sets RANK and WORLD_SIZE, nothing is started: the processes are there.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import torch.distributed

from smelt.plan.job import Job
from smelt.plan.manifest import canonical

HOST = "127.0.0.1"
GRACE = 5.0
"""Seconds that the others have to leave by themselves."""


@contextlib.contextmanager
def processes(job: Job) -> Iterator[torch.distributed.Store | None]:
    """Have `job.options["gpus"]` processes while the block lasts; yields where they meet (None: as the environment says).

    They end with this process however it ends, and it ends with any of them that fails.
    """
    count = max(1, job.options.get("gpus", 0))
    if count == 1 or "RANK" in os.environ:
        yield None
        return
    # The kernel picks a free port, so that two trainings on a machine can't collide.
    store = torch.distributed.TCPStore(HOST, 0, world_size=count, is_master=True, wait_for_workers=False)
    shared = {"WORLD_SIZE": str(count), "MASTER_ADDR": HOST, "MASTER_PORT": str(store.port)}
    # The store is this process's; the others must only connect to it, as they do under torchrun's agent.
    shared["TORCHELASTIC_USE_AGENT_STORE"] = "True"
    others = []
    for rank in range(1, count):
        environment = {**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        others.append(subprocess.Popen(_command(job), env=environment, preexec_fn=_end_with_parent))
    os.environ |= {"WORLD_SIZE": str(count), "RANK": "0", "LOCAL_RANK": "0"}
    finished = threading.Event()
    threading.Thread(target=_watch, args=(others, finished), daemon=True).start()
    try:
        yield store
    finally:
        finished.set()
        for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK"):
            del os.environ[name]
        _leave(others)


def _command(job: Job) -> list[str]:
    options = [text for name, value in job.options.items() for text in (f"--{name.replace('_', '-')}", str(value))]
    out = job.directory / "manifest.json"
    return [sys.executable, "-m", "smelt", job.stage, "--spec", canonical(job.spec), "--out", str(out), *options]


def _end_with_parent() -> None:
    """In the child: Linux ends it when its parent is gone, also when that was killed."""
    end_signal = 1  # PR_SET_PDEATHSIG of prctl(2)
    ctypes.CDLL(None).prctl(end_signal, signal.SIGKILL)


def _watch(others: list[subprocess.Popen], finished: threading.Event) -> None:
    """End this process, which would wait for it in a collective call, when one of the others fails."""
    while not finished.wait(0.5):
        for rank, other in enumerate(others, 1):
            # 75 and any other orderly end of all are told by this process too, which gets there by itself.
            if other.poll() and not finished.wait(GRACE):
                print(
                    f"process {rank} ended with code {other.returncode}; see its messages above",
                    file=sys.stderr,
                    flush=True,
                )
                os._exit(1)


def _leave(others: list[subprocess.Popen]) -> None:
    deadline = time.monotonic() + GRACE
    for other in others:
        try:
            other.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            other.kill()
            other.wait()
