"""A training that was stopped or killed goes on where it was, and ends with the bytes of one that was not."""

import io
import os
import signal
import subprocess
import sys
import time

import pytest

import tiny
from smelt.finetune.checkpoints import Checkpoints
from smelt.plan.errors import Interrupted
from smelt.plan.job import Job
from smelt.plan.manifest import Manifest, canonical

SETTINGS = {"num_train_epochs": 3, "train_batch_size": 16, "learning_rate": 5e-3, "logging_steps": 4}
"""6 steps an epoch, so that most points of the curve span a checkpoint."""
ROWS = {"labelled": 96, "dialogue": 24}


def run(results, upstream, label="tune", options=None, **changed):
    return results.run("finetune", label, {**SETTINGS, **changed}, options=options, **upstream)


def stop_after(monkeypatch, step, number=signal.SIGTERM):
    """The signal arrives during the given step."""
    from smelt.finetune.course import Course

    true = Course.on_pre_optimizer_step

    def with_signal(self, args, state, control, **more):
        true(self, args, state, control, **more)
        if state.global_step + 1 == step:
            os.kill(os.getpid(), number)

    monkeypatch.setattr(Course, "on_pre_optimizer_step", with_signal)


@pytest.mark.parametrize("kind", ["labelled", "dialogue"])
@pytest.mark.parametrize("method", ["full", "lora"])
def test_a_stopped_training_ends_as_an_uninterrupted_one(results, tmp_path, monkeypatch, kind, method):
    upstream = {"convert": tiny.converted(results.root), "task": getattr(tiny, kind)(results.root, ROWS[kind])}
    settings = {"method": method, "train_batch_size": 16 if kind == "labelled" else 4}
    expected = run(results, upstream, "whole", **settings)
    per_epoch = expected.facts["steps"] // 3
    # In the middle of the first epoch, at the end of the second, in the last step of all.
    for step in (3, 2 * per_epoch, 3 * per_epoch):
        with monkeypatch.context() as patch:
            stop_after(patch, step)
            if step == 3 * per_epoch:
                found = run(results, upstream, "stopped", **settings)
                break
            with pytest.raises(Interrupted, match=f"stopped by SIGTERM; saved after step {step} of {3 * per_epoch}"):
                run(results, upstream, "stopped", **settings)
    assert found.files == expected.files
    assert found.facts == expected.facts


def test_the_time_budget_saves_and_leaves_and_later_attempts_finish(results):
    upstream = {"convert": tiny.converted(results.root), "task": tiny.labelled(results.root, 96)}
    expected = run(results, upstream, "whole", max_steps=8)
    attempts = 0
    while True:
        attempts += 1
        try:
            found = run(results, upstream, "budget", options={"budget_minutes": 1e-9}, max_steps=8)
            break
        except Interrupted as error:
            assert "stopped by the time budget; saved after step" in str(error)
    assert attempts == 8
    assert found.files == expected.files


def test_a_damaged_newest_checkpoint_is_named_and_passed_over(results, monkeypatch, capfd):
    upstream = {"convert": tiny.converted(results.root), "task": tiny.labelled(results.root, 96)}
    expected = run(results, upstream, "whole")
    with monkeypatch.context() as patch:
        stop_after(patch, 8)
        with pytest.raises(Interrupted):
            run(results, upstream, "torn")
    state = results.path("finetune", "torn", SETTINGS, **upstream).parent / "state"
    assert sorted(path.name for path in state.glob("checkpoint-*")) == ["checkpoint-6", "checkpoint-8"]
    newest = state / "checkpoint-8" / "optimizer.pt"
    newest.write_bytes(newest.read_bytes()[:-100])
    (state / "checkpoint-9").mkdir()
    capfd.readouterr()
    found = run(results, upstream, "torn")
    said = capfd.readouterr().out
    assert f"checkpoint-8 is passed over: {newest} has " in said
    assert f"checkpoint-9 is passed over: {state}/checkpoint-9/COMPLETE is missing, so it was not finished" in said
    assert "going on from checkpoint-6" in said
    assert found.files == expected.files


def zeros(path):
    path.write_bytes(bytes(path.stat().st_size))


@pytest.mark.parametrize(
    "damage",
    [zeros, *(lambda path, text=text: path.write_text(text) for text in ("[]", "{}", '{"position": 3, "files": {}}'))],
)
def test_a_damaged_record_of_a_checkpoint_is_named_and_the_one_before_taken(tmp_path, damage):
    job = Job({"stage": "finetune", "upstream": {}}, tmp_path, terminal=io.StringIO())
    checkpoints = Checkpoints(job)

    def write(step):
        checkpoints.path(step).mkdir(exist_ok=True)
        (checkpoints.path(step) / "model.safetensors").write_text(str(step))
        checkpoints.finish(step, {"best": None, "tokens": step})

    write(6)
    write(8)
    damage(checkpoints.path(8) / "COMPLETE")
    path, position = checkpoints.newest()
    assert (path.name, position["tokens"]) == ("checkpoint-6", 6)
    assert f"checkpoint-8 is passed over: {checkpoints.path(8)}/COMPLETE is damaged" in job.terminal.getvalue()
    write(10)
    write(12)
    assert checkpoints.newest()[1]["tokens"] == 12
    assert not checkpoints.path(8).exists()


def test_a_training_that_was_finished_but_not_saved_is_not_done_again(results, monkeypatch, capfd):
    import smelt.finetune.product

    upstream = {"convert": tiny.converted(results.root), "task": tiny.labelled(results.root, 96)}
    expected = run(results, upstream, "whole", max_steps=8)
    with monkeypatch.context() as patch:
        patch.setattr(smelt.finetune.product, "_readme", lambda *given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(results, upstream, "late", max_steps=8)
    lines = (
        results.path("finetune", "late", {**SETTINGS, "max_steps": 8}, **upstream).parent / "state" / "metrics.jsonl"
    )
    before = lines.read_text()
    found = run(results, upstream, "late", max_steps=8)
    assert lines.read_text() == before
    assert found.files == expected.files


def test_state_holds_no_pickled_objects_and_not_every_checkpoint(results):
    import torch

    upstream = {"convert": tiny.converted(results.root), "task": tiny.labelled(results.root, 96)}
    node = run(results, upstream, num_train_epochs=5)
    checkpoints = list((node.directory / "state").glob("checkpoint-*"))
    assert len(checkpoints) <= 3
    for path in (node.directory / "state").rglob("*"):
        if path.suffix in (".pt", ".pth", ".bin"):
            from transformers.trainer_pt_utils import safe_globals

            with safe_globals():
                torch.load(path, weights_only=True)


@pytest.mark.slow
def test_a_killed_training_ends_as_an_uninterrupted_one(results):
    """kill -9 of the real command at a moment that nobody chose, then the command again."""
    upstream = {"convert": tiny.converted(results.root), "task": tiny.labelled(results.root, 96)}
    expected = run(results, upstream, "whole", num_train_epochs=6)
    settings = {**SETTINGS, "num_train_epochs": 6}
    out = results.path("finetune", "killed", settings, **upstream)
    spec = canonical(results.spec("finetune", settings, upstream))
    command = [sys.executable, "-m", "smelt", "finetune", "--spec", spec, "--out", str(out), "--save-minutes", "0.002"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not list(out.parent.glob("state/checkpoint-*/COMPLETE")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    process.wait()
    assert not out.exists()
    found = run(results, upstream, "killed", num_train_epochs=6)
    assert Manifest.read(out).files == found.files == expected.files
