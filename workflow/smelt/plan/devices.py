"""The GPUs of this machine, handed out so that two jobs never share one, also jobs of different workflows or users.

Each GPU has a lock file that is named by its UUID. A job locks as many as it was granted and shows only those to CUDA;
the kernel frees them when its process ends, however it ends. Where Slurm or a launcher has handed out, that holds.
"""

import contextlib
import fcntl
import os
import random
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

VISIBLE = "CUDA_VISIBLE_DEVICES"
HANDED_OUT = ("SLURM_JOB_ID", "RANK")
"""With one of these in the environment somebody else has chosen the GPUs."""


@contextlib.contextmanager
def taken(count: int, say: Callable[[str], None], check: Callable[[], None]) -> Iterator[None]:
    """Hold `count` GPUs while the block lasts (all there are, if they are fewer), waiting for those that others hold.

    `check` is called while waiting, and may raise to give up.
    """
    present = _present() if count and not any(name in os.environ for name in HANDED_OUT) else []
    if not present:
        yield
        return
    count = min(count, len(present))
    announced = False
    with contextlib.ExitStack() as held:
        while len(got := _locked(present, count, held)) < count:
            check()
            if not announced:
                say(f"waiting for {count} free of {len(present)} GPUs: other jobs hold them")
                announced = True
            time.sleep(random.uniform(0.5, 1.5))  # so that two that wait don't take from each other in step
        before = os.environ.get(VISIBLE)
        os.environ[VISIBLE] = ",".join(got)
        try:
            yield
        finally:
            if before is None:
                del os.environ[VISIBLE]
            else:
                os.environ[VISIBLE] = before


def _present() -> list[str]:
    """Names of the GPUs that this process may use, as CUDA takes them: UUIDs. A number in CUDA_VISIBLE_DEVICES counts as nvidia-smi counts."""
    try:
        query = ["nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader"]
        told = subprocess.run(query, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []  # no driver: what torch sees without one is said by the stage
    names = dict(line.replace(" ", "").split(",") for line in told.splitlines() if "," in line)
    if VISIBLE not in os.environ:
        return list(names.values())
    shown = [name.strip() for name in os.environ[VISIBLE].split(",")]
    return [names.get(name, name) for name in shown if name not in ("", "-1")]


def _locked(names: list[str], count: int, held: contextlib.ExitStack) -> list[str]:
    """Lock `count` of them, or none at all: who holds some and waits for more could wait for ever."""
    got: list[str] = []
    with contextlib.ExitStack() as trial:
        for name in names:
            file = trial.enter_context(_lock_file(name))
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                got.append(name)
            if len(got) == count:
                held.enter_context(trial.pop_all())
                return got
    return []


@contextlib.contextmanager
def _lock_file(name: str) -> Iterator[int]:
    folder = Path(tempfile.gettempdir()) / "smelt-gpus"
    if not folder.is_dir():
        folder.mkdir(exist_ok=True)
        folder.chmod(0o1777)  # other users lock here too
    path = folder / name.replace("/", "-")
    try:
        # Opened before it is made: Linux denies O_CREAT on a file of another user in such a folder.
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CREAT, 0o644)
    try:
        yield file
    finally:
        os.close(file)
