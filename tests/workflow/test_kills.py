"""Interruptions of every kind, each followed by the same command again: the results are those of an uninterrupted run."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from checkouts import Checkout, Run
from mini_texts import write_texts
from smelt.plan.job import this_process
from smelt.plan.manifest import canonical, sha256_file
from smelt.plan.settings.corpus import Corpus

# Long enough to be struck in the middle, with a checkpoint every half second or so.
LONGER = {
    "pretraining": {"short": {"max_steps": 160, "eval_steps": 40, "logging_steps": 4, "resources": {"save_minutes": 0.02}}},
    "finetuning": {"mood": {"num_train_epochs": 30, "from_scratch_reference": False, "resources": {"save_minutes": 0.01}}},
}  # fmt: skip
PATIENCE = 900
"""Seconds until a thing that must happen counts as not happening; the machine may be busy."""

Strike = Callable[[Path, subprocess.Popen], None]
"""Takes the folder of the node at work, and snakemake."""

pytestmark = pytest.mark.timeout(3600)
"""The first test of a session makes the mini experiment; on a busy machine that takes long."""


@dataclass(frozen=True)
class Interruption:
    name: str
    node: str
    """In which it strikes."""
    moment: Callable[[Path], bool]
    """Of the node's folder: whether it is time."""
    strike: Strike
    resumes: bool = False
    """Whether the next run must go on from a checkpoint."""
    at_once: bool = False
    """Whether the next run starts while processes of this one may still live."""


def begun(node: Path) -> bool:
    return (node / ".lock").exists() and bool((node / ".lock").read_text())


def under_way(node: Path) -> bool:
    """Some points of the curve and a whole checkpoint are there."""
    metrics = node / "state" / "metrics.jsonl"
    return metrics.exists() and metrics.read_bytes().count(b"\n") >= 5 and newest(node) > 0


def newest(node: Path) -> int:
    """Step of the newest whole checkpoint, 0 if there is none."""
    steps = [re.search(r"(\d+)$", path.parent.name) for path in node.glob("state/**/COMPLETE")]
    return max((int(step[1]) for step in steps if step), default=0)


def the_job(number: int) -> Strike:
    """A signal to the process that works on the node."""
    return lambda node, snakemake: os.kill(int((node / ".lock").read_text().rpartition("pid ")[2]), number)


def only_snakemake(number: int) -> Strike:
    return lambda node, snakemake: snakemake.send_signal(number)


def the_group(number: int) -> Strike:
    """As a terminal does on Ctrl-C, or a closing session."""
    return lambda node, snakemake: os.killpg(snakemake.pid, number)


INTERRUPTIONS = [
    Interruption("kill -9 of the pretraining process", "pretrain/tiny", under_way, the_job(signal.SIGKILL), resumes=True),
    Interruption("kill -9 of snakemake alone", "pretrain/tiny", under_way, only_snakemake(signal.SIGKILL), resumes=True, at_once=True),
    Interruption("kill -9 of snakemake as pretraining begins", "pretrain/tiny", begun, only_snakemake(signal.SIGKILL), at_once=True),
    Interruption("kill -9 of the process group", "pretrain/tiny", under_way, the_group(signal.SIGKILL), resumes=True),
    Interruption("SIGTERM to snakemake", "pretrain/tiny", under_way, only_snakemake(signal.SIGTERM)),
    Interruption("SIGTERM to the pretraining process", "pretrain/tiny", under_way, the_job(signal.SIGTERM), resumes=True),
    Interruption("Ctrl-C while the corpus is made", "corpus/town", begun, the_group(signal.SIGINT)),
    Interruption("Ctrl-C as pretraining begins", "pretrain/tiny", begun, the_group(signal.SIGINT)),
    Interruption("Ctrl-C in pretraining", "pretrain/tiny", under_way, the_group(signal.SIGINT), resumes=True),
    Interruption("Ctrl-C in fine-tuning", "finetune/mood", under_way, the_group(signal.SIGINT), resumes=True),
    Interruption("kill -9 of the process group in fine-tuning", "finetune/mood", under_way, the_group(signal.SIGKILL), resumes=True),
]  # fmt: skip


@dataclass
class Reference:
    """An uninterrupted run up to the fine-tuning: what every interrupted one must end with."""

    checkout: Checkout

    def arguments(self, checkout: Checkout, node: str) -> list[str]:
        """The command that makes one node."""
        target = self.checkout.node(node).relative_to(self.checkout.path) / "manifest.json"
        files = [checkout.mini[1], str(checkout.path / "longer.yaml")]
        return ["--cores", "2", "--configfile", *files, "--", str(target)]


@pytest.fixture(scope="session")
def reference(mini: Run, tmp_path_factory: pytest.TempPathFactory) -> Reference:
    checkout = mini.checkout.copy(tmp_path_factory.mktemp("uninterrupted") / "checkout")
    (checkout.path / "longer.yaml").write_text(yaml.safe_dump(LONGER), encoding="utf-8")
    for stage in ("pretrain", "convert", "finetune", "evaluate", "benchmark", "report", "archive", "experiments"):
        shutil.rmtree(checkout.results / stage)
    files = ["--configfile", checkout.mini[1], str(checkout.path / "longer.yaml")]
    explained = json.loads(checkout.smelt("explain", "--json", *files).stdout)
    (node,) = [each["node"] for each in explained if each["stage"] == "finetune" and each["node"].startswith("mood-")]
    checkout.snakemake("--cores", "2", *files, "--", f"results/finetune/{node}/manifest.json")
    return Reference(checkout)


@dataclass
class Aftermath:
    """What an interrupted and repeated run left."""

    code: int
    """With which the interrupted command ended."""
    checkpoint: int
    """The newest one when the command was given again."""
    log: str
    """Of the node in which it struck, of the second run."""
    manifests: dict[str, bytes]
    stale: list[Path]


def interrupted(interruption: Interruption, reference: Reference, folder: Path) -> Aftermath:
    # On a busy machine an orphan may take minutes to reach the step after which it saves and leaves.
    checkout = Checkout(reference.checkout.copy(folder / "checkout").path, {"SMELT_LOCK_WAIT": "900"})
    try:
        node = checkout.node(interruption.node)
        below = {
            "corpus/town": ["corpus"],
            "pretrain/tiny": ["pretrain", "convert", "finetune"],
            "finetune/mood": ["finetune"],
        }
        for stage in below[interruption.node]:
            shutil.rmtree(checkout.results / stage, ignore_errors=True)
        arguments = reference.arguments(checkout, interruption.node)
        snakemake = checkout.start(*arguments)
        wait_for(lambda: interruption.moment(node), checkout, snakemake)
        interruption.strike(node, snakemake)
        code = snakemake.wait(PATIENCE)
        if not interruption.at_once:
            wait_for(lambda: not living(checkout.path), checkout)
        checkpoint = newest(node)
        checkout.snakemake(*arguments)
        assert not living(checkout.path)
        manifests = {path.parent.parent.name: path.read_bytes() for path in node.glob("manifest.json")}
        return Aftermath(code, checkpoint, (node / "log.txt").read_text(), manifests, [*node.glob("state.stale-*")])
    finally:
        for pid in living(checkout.path):
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(folder)


def wait_for(happened: Callable[[], bool], checkout: Checkout, running: subprocess.Popen | None = None) -> None:
    deadline = time.monotonic() + PATIENCE
    while not happened():
        printed = checkout.path / "printed.txt"
        assert running is None or running.poll() is None, f"it ended before that:\n{printed.read_text()[-3000:]}"
        assert time.monotonic() < deadline, f"it never came to that:\n{printed.read_text()[-3000:]}"
        time.sleep(0.01)


def living(folder: Path) -> list[int]:
    """Processes at work in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink() == folder and (process / "cmdline").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return found


@pytest.fixture(scope="session")
def aftermaths(
    request: pytest.FixtureRequest, reference: Reference, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Future[Aftermath]]:
    """Of the interruptions that this session tests, two at a time (with pytest-xdist: `--dist loadfile`)."""
    params = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    chosen = [given["interruption"] for given in params if "interruption" in given]
    with ThreadPoolExecutor(2) as pool:
        yield {each.name: pool.submit(interrupted, each, reference, tmp_path_factory.mktemp("kill")) for each in chosen}


@pytest.mark.slow
@pytest.mark.parametrize("interruption", INTERRUPTIONS, ids=lambda each: each.name.replace(" ", "-"))
def test_the_same_command_again_ends_as_if_nothing_had_been(
    interruption: Interruption, reference: Reference, aftermaths: dict[str, Future[Aftermath]]
) -> None:
    aftermath = aftermaths[interruption.name].result()
    node = reference.checkout.node(interruption.node)
    assert aftermath.manifests == {node.parent.name: (node / "manifest.json").read_bytes()}
    assert not aftermath.stale
    resumed = re.search(r"going on from (?:step |checkpoint-)(\d+)", aftermath.log)
    if interruption.resumes:
        assert aftermath.code != 0
        assert resumed and int(resumed[1]) >= aftermath.checkpoint > 0, aftermath.log


@pytest.mark.slow
def test_a_second_snakemake_is_refused_with_host_and_pid_of_the_first(mini: Run, tmp_path: Path) -> None:
    checkout = mini.checkout.copy(tmp_path / "checkout")
    shutil.rmtree(checkout.results / "corpus")
    first = checkout.start(*checkout.mini)
    try:
        lock = checkout.path / ".snakemake" / "smelt.lock"
        wait_for(lambda: f"pid {first.pid}" in lock.read_text(), checkout, first)
        second = checkout.snakemake(*checkout.mini, check=False)
        assert second.returncode != 0
        assert f"host {os.uname().nodename}, pid {first.pid}" in second.stderr + second.stdout
        assert first.poll() is None
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()


def test_a_stage_whose_snakemake_is_gone_touches_nothing(results: Any, tmp_path: Path) -> None:
    """It may have waited for the lock while its successor finished the node."""
    write_texts(tmp_path / "texts")
    source = {"kind": "file", "path": str(tmp_path / "texts" / "articles")}
    settings = Corpus.model_validate(
        {"sources": [source], "format": "paragraphs", "splits": {"valid": 0.1, "test": 0.1}}
    ).model_dump(mode="json")
    made = results.run("corpus", "town", settings)
    spec = canonical(results.spec("corpus", settings, {}))
    before = {path: sha256_file(path) for path in made.directory.iterdir() if path.name != ".lock"}
    gone = subprocess.Popen([sys.executable, "-c", "pass"])
    gone.wait()
    done = subprocess.run(
        [sys.executable, "-m", "smelt", "corpus", "--spec", spec, "--out", made.path],
        env={**os.environ, "SMELT_WATCH_PARENT": f"{this_process().rpartition(' ')[0]} {gone.pid}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 75, done.stderr
    assert "is gone" in done.stderr
    assert {path: sha256_file(path) for path in made.directory.iterdir() if path.name != ".lock"} == before
