"""profiles/slurm on a real Slurm: the results are those of a run on one machine, whatever becomes of the jobs."""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from checkouts import Checkout
from mini_texts import write_texts
from slurm_cluster import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
PATIENCE = 600
"""Seconds until a thing that must happen counts as not happening."""
QUICK = ("--slurm-init-seconds-before-status-checks", "2", "--latency-wait", "10")
"""The profile asks Slurm less often, and waits longer for files: a run of minutes would mostly wait."""


class Trial:
    """A checkout whose mini experiment pretrains for as long as a test needs."""

    def __init__(self, cluster: Cluster, folder: Path, **pretraining: object) -> None:
        self.cluster = cluster
        self.checkout = Checkout.make(folder)
        self.checkout.variables["SLURM_CONF"] = cluster.environment["SLURM_CONF"]
        write_texts(folder / "texts")
        longer = folder / "longer.yaml"
        longer.write_text(yaml.safe_dump({"pretraining": {"short": pretraining}}))
        self.files = [*self.checkout.mini, str(longer)]
        explained = json.loads(self.checkout.smelt("explain", "--json", *self.files).stdout)
        (name,) = [each["node"] for each in explained if each["stage"] == "pretrain"]
        self.node = self.checkout.results / "pretrain" / name
        self.target = ["--", f"results/pretrain/{name}/manifest.json"]

    @contextlib.contextmanager
    def running(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """Snakemake with the profile, up to the pretrained model; it must succeed and leave no job."""
        snakemake = self.checkout.start(*QUICK, *arguments, *self.files, *self.target, profile="slurm")
        try:
            yield snakemake
            assert snakemake.wait(PATIENCE) == 0, self.printed()
        finally:
            if snakemake.poll() is None:
                os.killpg(snakemake.pid, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while left := self.cluster.ask("squeue", "-h"):
            assert time.monotonic() < deadline, left
            time.sleep(0.5)

    def printed(self) -> str:
        return (self.checkout.path / "printed.txt").read_text()

    def wait_for(self, happened: Callable[[], bool], snakemake: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not happened():
            assert snakemake.poll() is None and time.monotonic() < deadline, self.printed()
            time.sleep(0.1)

    def manifests(self, results: Path) -> dict[str, bytes]:
        return {
            f"{path.parent.parent.name}/{path.parent.name}": path.read_bytes()
            for path in results.glob("*/*/manifest.json")
        }

    def made_here(self) -> dict[str, bytes]:
        """The same without a cluster and without interruption."""
        elsewhere = self.checkout.path / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "texts").symlink_to(self.checkout.path / "texts")
        self.checkout.snakemake("--cores", "2", *self.files, *self.target, cwd=elsewhere)
        return self.manifests(elsewhere / "results")


def test_a_cancelled_training_is_submitted_again_and_ends_as_if_it_had_not_been(cluster, folder):
    trial = Trial(
        cluster, folder, max_steps=400, eval_steps=100, logging_steps=4, resources={"save_minutes": 0.02, "gpus": 2}
    )
    with trial.running() as snakemake:
        trial.wait_for(lambda: any(trial.node.glob("state/checkpoints/*/COMPLETE")), snakemake)
        ((job, gpus),) = [line.split() for line in cluster.ask("squeue", "-h", "-O", "jobid,tres-per-job").splitlines()]
        assert gpus == "gres:gpu:2"
        cluster.ask("scancel", job)
    log = (trial.node / "log.txt").read_text()
    assert "2 GPUs were granted, torch sees none" in log
    assert "going on from step" in log
    assert trial.manifests(trial.checkout.results) == trial.made_here()


def test_a_training_longer_than_its_time_limit_finishes_by_itself(cluster, folder):
    trial = Trial(
        cluster,
        folder,
        max_steps=3000,
        eval_steps=500,
        logging_steps=500,
        resources={"minutes": 2, "save_minutes": 30},
    )
    # A notice of 60 seconds comes 60 to 90 before the limit of 120: Slurm looks every half minute. On a busy machine an
    # attempt gets little done in what is left.
    with trial.running("--retries", "10", "--set-resources", "pretrain:slurm_extra='--signal=URG@60'"):
        pass
    assert "stopped by SIGURG; saved at step" in trial.printed()
    assert "going on from step" in (trial.node / "log.txt").read_text()
