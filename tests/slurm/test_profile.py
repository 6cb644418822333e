"""profiles/slurm on a real Slurm: the results are those of a run on one machine, whatever becomes of the jobs."""

import json
import subprocess
import time
from collections.abc import Callable
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

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Up to the pretrained model, on the cluster."""
        return self.checkout.start(*QUICK, *arguments, *self.files, *self.target, profile="slurm")

    def finish(self, snakemake: subprocess.Popen[bytes]) -> None:
        code = snakemake.wait(PATIENCE)
        assert code == 0, self.printed()
        assert self.cluster.ask("squeue", "-h") == ""

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
    snakemake = trial.start()
    trial.wait_for(lambda: any(trial.node.glob("state/checkpoints/*/COMPLETE")), snakemake)
    ((job, gpus),) = [line.split() for line in cluster.ask("squeue", "-h", "-O", "jobid,tres-per-job").splitlines()]
    assert gpus == "gres:gpu:2"
    cluster.ask("scancel", job)
    trial.finish(snakemake)
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
    # A notice of 60 seconds comes 60 to 90 before the limit of 120: Slurm looks every half minute.
    snakemake = trial.start("--set-resources", "pretrain:slurm_extra='--signal=URG@60'")
    trial.finish(snakemake)
    assert "stopped by SIGURG; saved at step" in trial.printed()
    assert "going on from step" in (trial.node / "log.txt").read_text()
