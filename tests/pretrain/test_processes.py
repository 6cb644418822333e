"""Several processes: the same data, the same learning, one product, and nobody left behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import small_shards
from smelt.plan.manifest import Manifest, canonical

pytestmark = pytest.mark.slow
SETTINGS = json.loads(canonical(small_shards.settings({"dropout": 0.0})))
DROPOUT = json.loads(canonical(small_shards.settings()))


@pytest.fixture(scope="module")
def upstream(session_results):
    return small_shards.upstream(session_results)


@pytest.fixture(scope="module")
def alone(session_results, upstream):
    return session_results.run("pretrain", "alone", SETTINGS, **upstream)


def task(results, label, settings, upstream, **options):
    spec = canonical(results.spec("pretrain", settings, upstream))
    return {"spec": spec, "out": str(results.path("pretrain", label, settings, **upstream)), "options": options}


@pytest.fixture(scope="module")
def together(session_results, upstream, tmp_path_factory):
    """Under one torchrun with two processes: ZeRO 0, 1 and 2, then with dropout a whole run and one that stops on the way."""
    tasks = {
        f"zero-{stage}": task(session_results, f"zero-{stage}", SETTINGS, upstream, zero_stage=stage)
        for stage in (0, 1, 2)
    }
    tasks["whole"] = task(session_results, "whole-2", DROPOUT, upstream, zero_stage=2)
    stopping = task(session_results, "stopped-2", DROPOUT, upstream, zero_stage=2, budget_minutes=1e-6)
    tasks["stopped"] = {**stopping, "options": {"zero_stage": 2}}
    file = tmp_path_factory.mktemp("tasks") / "tasks.json"
    file.write_text(json.dumps([*list(tasks.values())[:4], stopping, stopping, tasks["stopped"]]))
    script = Path(__file__).with_name("in_processes.py")
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        str(script),
        str(file),
    ]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=540)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count("stopped by the time budget; saved at step") == 4  # two attempts, two processes
    return {name: Manifest.read(Path(each["out"])) for name, each in tasks.items()}


def curve(manifest, key="loss"):
    rows = [json.loads(line) for line in manifest.file("curve.jsonl").read_text().splitlines()]
    return [row[key] for row in rows if key in row]


@pytest.mark.parametrize("zero_stage", [0, 1, 2])
def test_two_processes_learn_what_one_learns(alone, together, zero_stage):
    made = together[f"zero-{zero_stage}"]
    assert made.provenance["measurements"]["processes"] == 2
    assert made.provenance["measurements"]["zero_stage"] == zero_stage
    for key in ("loss", "valid_loss"):
        assert len(curve(made, key)) == len(curve(alone, key)) > 2
        assert curve(made, key) == pytest.approx(curve(alone, key), abs=1e-4)
    assert curve(made, "grad_norm") == pytest.approx(curve(alone, "grad_norm"), rel=1e-3)
    assert curve(made, "tokens") == curve(alone, "tokens")


def test_two_processes_that_stopped_twice_end_as_if_they_had_not(together):
    stopped, whole = together["stopped"], together["whole"]
    assert stopped.files == whole.files
    assert stopped.facts == whole.facts


def test_two_gpus_need_no_launcher_and_a_lost_process_ends_the_command_which_then_goes_on(
    together, session_results, upstream, monkeypatch, tmp_path
):
    """Two processes on the CPU stand in for the GPUs. The second one is killed; the same command then ends as if it had not been."""
    monkeypatch.setenv("SMELT_CPU_AS_GPU", "1")
    each = task(session_results, "own-launch", DROPOUT, upstream)
    out, log = Path(each["out"]), tmp_path / "log.txt"
    command = [sys.executable, "-m", "smelt", "pretrain", "--spec", each["spec"], "--out", str(out), "--log", str(log)]
    command += ["--gpus", "2", "--zero-stage", "2", "--save-minutes", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        checkpoints = out.parent / "state" / "checkpoints"
        wait(lambda: any(checkpoints.glob("*/COMPLETE")), process)
        (other,) = children(process.pid)
        os.kill(other, signal.SIGKILL)
        _, told = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 1
    assert "process 1 of 2 ended with code -9" in told
    assert not out.exists()
    ran = subprocess.run(command, capture_output=True, text=True, timeout=540)
    assert ran.returncode == 0, ran.stderr + log.read_text()
    assert "going on from step" in ran.stderr
    assert Manifest.read(out).files == together["whole"].files


LAUNCH = """
import sys, time
from pathlib import Path
from smelt.plan.job import Job
from smelt.training import launch

launch._command = lambda job: [sys.executable, "-c", "import time; time.sleep(600)", "pretrain"]
with launch.processes(Job({"stage": "pretrain"}, Path(".")), 3):
    time.sleep(600)
"""


def test_a_killed_command_takes_its_processes_with_it():
    process = subprocess.Popen([sys.executable, "-c", LAUNCH])
    try:
        wait(lambda: len(children(process.pid)) == 2, process)
        found = children(process.pid)
    finally:
        process.kill()
        process.wait()
    deadline = time.monotonic() + 10
    while any(running(pid) for pid in found):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def wait(ready, process, seconds=300):
    deadline = time.monotonic() + seconds
    while not ready():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)


def children(pid):
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for each in tasks for child in each.read_text().split() if b"pretrain" in cmdline(child)]


def cmdline(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False
