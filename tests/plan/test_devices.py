"""GPUs are handed out to processes that know nothing of each other. The driver's command is stood in for; the locks are the kernel's."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

JOB = """
import os, sys
from smelt.plan.devices import taken

def leave():
    if os.path.exists("leave"):
        sys.exit("asked to leave")

with taken(int(sys.argv[1]), lambda text: print(text, flush=True), leave):
    print("has", os.environ.get("CUDA_VISIBLE_DEVICES"), flush=True)
    sys.stdin.readline()
print("then", os.environ.get("CUDA_VISIBLE_DEVICES"), flush=True)
"""


class Machine:
    """A machine with so many GPUs, of which processes take some."""

    def __init__(self, folder: Path, uuids: list[str]) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        driver = folder / "bin" / "nvidia-smi"
        lines = "".join(f"echo '{index}, {uuid}'\n" for index, uuid in enumerate(uuids))
        driver.write_text(f"#!/bin/sh\n{lines}")
        driver.chmod(0o755)
        self.jobs: list[subprocess.Popen[str]] = []

    def job(self, count: int, **environment: str) -> subprocess.Popen[str]:
        inherited = {k: v for k, v in os.environ.items() if k not in ("CUDA_VISIBLE_DEVICES", "SLURM_JOB_ID", "RANK")}
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        found = subprocess.Popen(
            [sys.executable, "-c", JOB, str(count)],
            env={**inherited, "PATH": path, "TMPDIR": str(self.folder), **environment},
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.jobs.append(found)
        return found


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Any]:
    made = Machine(tmp_path, ["GPU-a", "GPU-b"])
    yield made
    for job in made.jobs:
        job.kill()
        job.communicate()


def has(job: subprocess.Popen[str]) -> str:
    line = job.stdout.readline()
    assert line.startswith("has "), line
    return line.removeprefix("has ").strip()


def test_two_jobs_never_share_a_gpu_and_a_third_waits_for_one(machine):
    first, second = machine.job(1), machine.job(1)
    assert {has(first), has(second)} == {"GPU-a", "GPU-b"}
    third = machine.job(1)
    assert third.stdout.readline() == "waiting for 1 free of 2 GPUs: other jobs hold them\n"
    first.communicate("\n")
    assert has(third) in ("GPU-a", "GPU-b")
    assert second.poll() is None


def test_a_killed_job_leaves_its_gpu_free(machine):
    first = machine.job(2)
    assert has(first) == "GPU-a,GPU-b"
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert has(machine.job(2)) == "GPU-a,GPU-b"


def test_who_waits_for_two_holds_none(machine):
    assert has(machine.job(1)) == "GPU-a"
    greedy = machine.job(2)
    assert greedy.stdout.readline().startswith("waiting for 2 free")
    assert has(machine.job(1)) == "GPU-b"


def test_who_waits_can_be_stopped(machine):
    assert has(machine.job(2)) == "GPU-a,GPU-b"
    waiting = machine.job(1)
    assert waiting.stdout.readline().startswith("waiting")
    (machine.folder / "leave").touch()
    assert waiting.wait(30) == 1
    assert "asked to leave" in waiting.stderr.read()


def test_more_than_there_are_are_all_there_are(machine):
    assert has(machine.job(8)) == "GPU-a,GPU-b"


def test_the_environment_is_as_before_afterwards(machine):
    job = machine.job(1)
    assert has(job) == "GPU-a"
    assert job.communicate("\n")[0] == "then None\n"


@pytest.mark.parametrize(
    ("shown", "count", "taken"), [("1", 1, "GPU-b"), ("GPU-b,0", 2, "GPU-b,GPU-a"), ("MIG-x", 1, "MIG-x"), ("", 1, "")]
)
def test_only_what_is_visible_is_taken(machine, shown, count, taken):
    assert has(machine.job(count, CUDA_VISIBLE_DEVICES=shown)) == taken


@pytest.mark.parametrize("name", ["SLURM_JOB_ID", "RANK"])
def test_what_a_scheduler_or_launcher_gave_is_left_alone(machine, name):
    assert has(machine.job(2)) == "GPU-a,GPU-b"
    assert has(machine.job(1, **{name: "1", "CUDA_VISIBLE_DEVICES": "0"})) == "0"


def test_a_job_without_gpus_takes_none(machine):
    assert has(machine.job(2)) == "GPU-a,GPU-b"
    assert has(machine.job(0)) == "None"


def test_without_a_driver_nothing_is_taken(machine):
    (machine.folder / "bin" / "nvidia-smi").write_text("#!/bin/sh\nexit 9\n")
    assert has(machine.job(1)) == "None"
