"""Pretraining as a stage: one product whatever happens on the way, and clear words where it can't be had.

The kills are real signals. A reference run that nothing disturbed is the measure of all of them: equal manifests mean
equal weights, curve and counts.
"""

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import torch

import small_shards
from smelt.data.order import Order
from smelt.data.tokens import TokenStream
from smelt.plan.errors import DataError, Interrupted, LockedError, SmeltError
from smelt.plan.job import execute
from smelt.plan.manifest import Manifest, canonical
from smelt.training.loop import TrainingError

SETTINGS = small_shards.settings()
EVERY_STEP = {"save_minutes": 0}


@pytest.fixture(scope="module")
def upstream(session_results):
    return small_shards.upstream(session_results)


@pytest.fixture(scope="module")
def reference(session_results, upstream):
    return session_results.run("pretrain", "reference", SETTINGS, **upstream)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_gpus_that_are_not_there_are_said_and_one_process_trains_on_the_cpu(
    session_results, upstream, reference, capsys
):
    made = session_results.run("pretrain", "no-gpu", SETTINGS, options={"gpus": 2}, **upstream)
    assert "2 GPUs were granted, torch sees none: on the CPU" in capsys.readouterr().out
    assert made.provenance["measurements"]["processes"] == 1
    assert made.files == reference.files


class Node:
    """A pretrain node of its own, over the shared upstream."""

    def __init__(self, results, label, upstream, settings=SETTINGS):
        settings = json.loads(canonical(settings))
        self.spec = results.spec("pretrain", settings, upstream)
        self.out = results.path("pretrain", label, settings, **upstream)
        self.state = self.out.parent / "state"

    def run(self, **options):
        execute("pretrain", canonical(self.spec), self.out, options=options)
        return Manifest.read(self.out)

    def command(self, **options):
        flags = [text for name, value in options.items() for text in (f"--{name.replace('_', '-')}", str(value))]
        return [
            sys.executable,
            "-m",
            "smelt",
            "pretrain",
            "--spec",
            canonical(self.spec),
            "--out",
            str(self.out),
            *flags,
        ]

    def checkpoints(self):
        return sorted(int(path.parent.name) for path in self.state.glob("checkpoints/*/COMPLETE"))

    def recorded(self):
        path = self.state / "metrics.jsonl"
        return path.read_text().count("\n") if path.exists() else 0


@pytest.fixture
def node(session_results, upstream, request):
    """A node named after the test, with the settings of the reference."""
    return Node(session_results, request.node.name.replace("[", "-").strip("]")[-60:], upstream)


def same(first, second):
    """All that is content: files with sizes and digests, facts, settings."""
    return {k: v for k, v in first.data.items() if k != "node"} == {k: v for k, v in second.data.items() if k != "node"}


@contextlib.contextmanager
def signal_after(node, lines, number):
    """Send ourselves a signal when the record of the training has so many lines."""

    done = threading.Event()

    def watch():
        while node.recorded() < lines:
            if done.wait(0.002):
                return
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def interrupted(node, lines, number, **options):
    with signal_after(node, lines, number), pytest.raises(Interrupted) as caught:
        node.run(**options)
    assert not node.out.exists()
    return str(caught.value)


def test_two_runs_give_the_same_bytes(reference, node):
    again = node.run()
    assert same(again, reference)
    assert set(again.files) == {"curve.jsonl", "weights/config.json", "weights/model.safetensors"}


def test_the_product_is_what_was_learned(reference, upstream):
    """The validation loss, by transformers' own loss on the same text, and a loss that fell."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(reference.directory / "weights", dtype=torch.float32).eval()
    valid = TokenStream(upstream["shards"], "valid").sequences(32)
    rows = torch.from_numpy(valid.__getitems__([i * len(valid) // 12 for i in range(12)]))
    with torch.no_grad():
        loss = model(input_ids=rows, labels=rows).loss.item()
    facts = reference.facts
    assert facts["valid_loss"] == pytest.approx(loss, abs=1e-5)
    split = upstream["shards"].facts["splits"]["valid"]
    bits = {figure["metric"]: figure["value"] for figure in facts["figures"]}["bits per byte"]
    assert bits == pytest.approx(loss * split["tokens"] / split["bytes"] / math.log(2), abs=1e-5)
    curve = [json.loads(line) for line in reference.file("curve.jsonl").read_text().splitlines()]
    losses = [row["loss"] for row in curve if "loss" in row]
    assert len(losses) == 12
    assert losses[0] > 0.97 * math.log(small_shards.VOCABULARY)
    assert facts["final_loss"] == losses[-1] < losses[0] - 0.5
    assert [row["step"] for row in curve if "valid_loss" in row] == [10, 20, 24]
    assert (facts["steps"], facts["tokens"]) == (24, 24 * 8 * 32)
    assert facts["parameters"] == sum(parameter.numel() for parameter in model.parameters())
    assert "time" not in curve[0]


def test_the_first_step_is_on_the_first_batch_of_the_order(reference, upstream):
    """Without dropout: the curve's first point is the loss of the fresh network on these very sequences."""
    from smelt.models.network import build, configuration
    from smelt.plan.settings.model import Model

    tokenizer = upstream["tokenizer"].facts
    train = TokenStream(upstream["shards"], "train").sequences(32)
    rows = torch.from_numpy(train.__getitems__(Order(len(train), 0).positions(0, 8)))
    model = build(
        configuration(
            Model(**{**small_shards.MODEL, "dropout": 0.0}), tokenizer["vocab_size"], tokenizer["special_tokens"]
        ),
        0,
    )
    with torch.no_grad():
        fresh = model(input_ids=rows, labels=rows).loss.item()
    first = json.loads(reference.file("curve.jsonl").read_text().split("\n")[0])
    assert first["loss"] == pytest.approx(fresh, abs=0.1)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGUSR1", "SIGURG"])
def test_a_signal_saves_and_the_next_run_ends_as_if_there_had_been_none(reference, node, name):
    message = interrupted(node, 6, getattr(signal, name))
    assert f"stopped by {name}; saved at step {node.checkpoints()[-1]} of 24" in message
    assert 1 <= node.checkpoints()[-1] < 24
    assert same(node.run(), reference)
    steps = [json.loads(line)["step"] for line in (node.state / "metrics.jsonl").read_text().splitlines()]
    assert steps == sorted([*range(2, 25, 2), 10, 20, 24])


def test_a_time_budget_ends_each_attempt_until_it_is_done(reference, node):
    for _ in range(3):
        before = node.checkpoints()
        with pytest.raises(Interrupted, match="stopped by the time budget; saved at step"):
            node.run(budget_minutes=1e-6)
        assert node.checkpoints() != before
    assert same(node.run(budget_minutes=10), reference)


def test_a_broken_newest_checkpoint_is_named_and_the_one_before_leads_to_the_same_end(reference, node, capfd):
    interrupted(node, 6, signal.SIGTERM, **EVERY_STEP)
    earlier, newest = node.checkpoints()[-2:]
    path = next((node.state / "checkpoints" / f"{newest:010}").rglob("*model_states.pt"))
    path.write_bytes(path.read_bytes()[:-100])
    capfd.readouterr()
    assert same(node.run(), reference)
    told = capfd.readouterr().out
    assert f"checkpoint of step {newest} passed over: {path}" in told
    assert f"going on from step {earlier} of 24" in told


def test_state_of_other_code_is_moved_aside_and_never_mixed_in(reference, node):
    interrupted(node, 6, signal.SIGTERM)
    node.spec["code"] = "0123456789abcdef"
    made = node.run()
    assert (node.state.with_name("state.stale-1") / "checkpoints").is_dir()
    assert same(made, reference)
    assert made.provenance["spec"]["code"] == "0123456789abcdef"


def test_a_finished_training_needs_no_step_to_be_written_again(reference, node):
    node.run()
    node.out.unlink()
    assert same(node.run(), reference)
    assert node.checkpoints() == [24]


@pytest.mark.slow
def test_kill_9_costs_the_steps_since_the_last_save_and_nothing_else(
    reference, session_results, upstream, tmp_path, monkeypatch
):
    """Also: nothing on PATH, so no compiler; and a second trainer beside the first one is refused."""
    node = Node(session_results, "killed", upstream)
    log = tmp_path / "log"
    environment = {**os.environ, "PATH": str(tmp_path / "empty")}
    with log.open("w") as file:
        process = subprocess.Popen(node.command(save_minutes=0), env=environment, stderr=file, stdout=file)
        try:
            wait(lambda: len(node.checkpoints()) > 0 and node.checkpoints()[-1] >= 5, process, log)
            os.kill(process.pid, signal.SIGSTOP)
            monkeypatch.setenv("SMELT_LOCK_WAIT", "0")
            with pytest.raises(LockedError, match=rf"in use by .*{process.pid}"):
                node.run()
        finally:
            process.kill()
            process.wait()
    assert not node.out.exists()
    assert node.checkpoints()[-1] < 24
    assert same(node.run(), reference)


@pytest.mark.slow
def test_sigterm_to_the_command_ends_with_75_and_one_line(session_results, upstream, tmp_path):
    node = Node(session_results, "terminated", upstream, small_shards.settings(max_steps=100_000))
    log = tmp_path / "log"
    with (tmp_path / "errors").open("w") as errors:
        process = subprocess.Popen([*node.command(), "--log", str(log)], stderr=errors)
        wait(lambda: node.recorded() > 3, process, log)
        process.terminate()
        assert process.wait(60) == 75
    told = (tmp_path / "errors").read_text()
    assert "SIGTERM: finishing the step, then saving" in told
    assert told.splitlines()[-1].startswith(
        f"smelt: pretrain {node.out.parent.name}: stopped by SIGTERM; saved at step"
    )
    assert "Traceback" not in told


def wait(ready, process, log, seconds=300):
    """Until `ready()`; fails with the log if the process ended or the time is over."""
    deadline = time.monotonic() + seconds
    while not ready():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.01)


def test_a_loss_that_is_not_finite_ends_with_the_steps_and_the_way_out(session_results, upstream):
    settings = small_shards.settings(learning_rate=1e30, warmup_steps=0, max_skipped_steps=3)
    node = Node(session_results, "infinite", upstream, settings)
    with pytest.raises(TrainingError) as caught:
        node.run()
    message = str(caught.value)
    assert "not finite in 4 steps (2, 3, 4, 5; step 5 is positions 32 to 39 of the data order)" in message
    assert "max_skipped_steps is 3" in message
    assert "Lower pretraining.learning_rate" in message
    assert not node.out.exists()


def test_a_few_steps_that_are_not_finite_are_skipped_and_counted(session_results, upstream, monkeypatch):
    """One batch gives an infinite loss: a fault put between data and engine."""
    from smelt.training import loop

    real, seen = loop.loss_sum, []

    def faulty(logits, labels):
        if torch.is_grad_enabled():
            seen.append(None)
        return real(logits, labels) * (math.inf if torch.is_grad_enabled() and len(seen) in (3, 7) else 1)

    monkeypatch.setattr(loop, "loss_sum", faulty)
    made = Node(session_results, "skipped", upstream).run()
    assert made.facts["skipped_steps"] == [3, 7]
    assert math.isfinite(made.facts["final_loss"])
    assert made.facts["valid_loss"] < math.log(small_shards.VOCABULARY)


def test_micro_batches_change_rounding_only(reference, session_results, upstream):
    plain = small_shards.settings({"dropout": 0.0})
    whole = Node(session_results, "whole", upstream, plain).run(micro_batch=8)
    parts = Node(session_results, "parts", upstream, plain).run(micro_batch=2)
    assert parts.facts["valid_loss"] == pytest.approx(whole.facts["valid_loss"], abs=1e-5)
    assert whole.provenance["measurements"]["micro_batch"] == 8
    assert parts.provenance["measurements"]["micro_batch"] == 2


def test_a_micro_batch_that_does_not_divide_is_refused(node):
    with pytest.raises(SmeltError, match="micro_batch 3 does not divide the 8 sequences"):
        node.run(micro_batch=3)


def test_another_zero_stage_does_not_take_up_the_state_of_the_first(reference, node):
    interrupted(node, 6, signal.SIGTERM)
    with pytest.raises(SmeltError, match="ZeRO stage 0, this run has 1 at stage 1: run as before, or move"):
        node.run(zero_stage=1)
    assert same(node.run(), reference)


def test_zero_stages_learn_the_same(reference, session_results, upstream):
    for stage in (1, 2):
        made = Node(session_results, f"zero-{stage}", upstream).run(zero_stage=stage)
        assert made.facts["valid_loss"] == pytest.approx(reference.facts["valid_loss"], abs=1e-4)


def test_shards_of_another_tokenizer_are_refused(session_results, upstream, tmp_path):
    import shutil

    other = session_results.root / "tokenizer" / "other-0000000000"
    shutil.copytree(upstream["tokenizer"].directory, other)
    about = {**upstream["tokenizer"].data, "node": other.name}
    (other / "manifest.json").write_text(json.dumps(about))
    node = Node(session_results, "mismatch", {**upstream, "tokenizer": Manifest.read(other / "manifest.json")})
    with pytest.raises(
        DataError, match=r"these shards were made with tokenizer small-shards-.*, not with other-0000000000"
    ):
        node.run()


def test_too_little_text_for_one_sequence_is_refused(session_results, upstream):
    long = small_shards.settings({"max_position_embeddings": 4096}, sequence_length=4096)
    with pytest.raises(DataError, match=r"split 'valid' holds .* tokens, fewer than one sequence of 4,096"):
        Node(session_results, "long", upstream, long).run()
