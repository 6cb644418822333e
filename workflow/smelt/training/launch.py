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

from torch.distributed import Store, TCPStore

from smelt.plan.errors import SmeltError
from smelt.plan.job import Job
from smelt.plan.manifest import canonical

HOST = "127.0.0.1"
MEETING_PLACE = "SMELT_PORT"
"""Environment variable that tells a process that was started here the port of the first one."""
GRACE = 5.0
"""Seconds that the others have to leave by themselves."""


@contextlib.contextmanager
def processes(job: Job, count: int) -> Iterator[Store | None]:
    """Have `count` processes while the block lasts; yields where they meet (None: as the environment says).

    They end with this process however it ends, and it ends with any of them that fails.
    """
    if MEETING_PLACE in os.environ:
        yield TCPStore(HOST, int(os.environ[MEETING_PLACE]), world_size=count, is_master=False)
        return
    if count == 1 or "RANK" in os.environ:
        yield None
        return
    # The kernel picks a free port, so that two trainings on a machine can't collide.
    store = TCPStore(HOST, 0, world_size=count, is_master=True, wait_for_workers=False)
    shared = {**os.environ, "WORLD_SIZE": str(count), MEETING_PLACE: str(store.port)}
    others = []
    for rank in range(1, count):
        environment = {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        others.append(subprocess.Popen(_command(job), env=environment, preexec_fn=_end_with_parent))
    os.environ |= {"WORLD_SIZE": str(count), "RANK": "0", "LOCAL_RANK": "0"}
    finished = threading.Event()
    threading.Thread(target=_watch, args=(job, others, finished), daemon=True).start()
    try:
        yield store
    except RuntimeError as error:
        # A collective call that lost its counterpart says so in terms of sockets.
        if lost := _lost(others, GRACE):
            raise SmeltError(f"{lost}; its messages are in {job.directory / 'log.txt'}") from error
        raise
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
    """In the child: Linux ends it when its parent is gone, also when that was killed. Elsewhere it ends at its next collective call."""
    if sys.platform == "linux":
        end_signal = 1  # PR_SET_PDEATHSIG of prctl(2)
        ctypes.CDLL(None).prctl(end_signal, signal.SIGKILL)


def _watch(job: Job, others: list[subprocess.Popen], finished: threading.Event) -> None:
    """End this process, which would wait in a collective call for ever, when one of the others fails.

    An orderly end of all (a stop, an error that all meet) reaches this process too, within the grace.
    """
    while not finished.wait(0.5):
        if (lost := _lost(others)) and not finished.wait(GRACE):
            job.say(f"{lost}, so this one ends")
            os._exit(SmeltError.exit_code)


def _lost(others: list[subprocess.Popen], wait: float = 0.0) -> str | None:
    """Which of the others ended with an error; looks for up to `wait` seconds."""
    deadline = time.monotonic() + wait
    while True:
        for rank, other in enumerate(others, 1):
            if other.poll():
                return f"process {rank} of {len(others) + 1} ended with code {other.returncode}"
        if time.monotonic() >= deadline:
            return None
        time.sleep(0.05)


def _leave(others: list[subprocess.Popen]) -> None:
    deadline = time.monotonic() + GRACE
    for other in others:
        try:
            other.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            other.kill()
            other.wait()
