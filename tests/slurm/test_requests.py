"""What Slurm is asked for: the real plugin, with an `sbatch` that writes down its arguments and a `squeue` by which the job fails."""

import json
import os
import shlex
from pathlib import Path

import pytest
import yaml

from checkouts import Checkout
from mini_texts import write_texts

pytestmark = pytest.mark.slow
MINE = {"account": "physics", "cpu_partition": "thin", "gpu_partition": "fat", "gpu_type": "h200"}
RESOURCES = {"corpus": {"memory": 3000}, "pretrain": {"gpus": 4, "minutes": 90, "memory": 32000, "threads": 16}}
EVERYWHERE = ("--parsable", "--export=ALL")
OF_THE_RUN = ("--job-name", "--output", "--comment", "-D")


class Recorder:
    """A checkout with commands that stand in for those of Slurm."""

    def __init__(self, folder: Path) -> None:
        self.checkout = Checkout.make(folder)
        write_texts(folder / "texts")
        self.asked = folder / "asked"
        commands = folder / "commands"
        commands.mkdir()
        for name, text in {
            "sbatch": f'printf "%s\\n" "$@" > {shlex.quote(str(self.asked))}; echo 7',
            "squeue": 'echo "7|FAILED"',
            "scontrol": 'echo "MinJobAge = 300 sec"',
            "sacctmgr": "echo physics",
            "sinfo": "echo thin; echo fat",
        }.items():
            (commands / name).write_text(f"#!/bin/sh\n{text}\n")
            (commands / name).chmod(0o755)
        self.checkout.variables["PATH"] = f"{commands}:{os.environ['PATH']}"
        (folder / "more.yaml").write_text(yaml.safe_dump({"experiments": {"mini": {"resources": RESOURCES}}}))
        self.files = [*self.checkout.mini, str(folder / "more.yaml")]
        explained = json.loads(self.checkout.smelt("explain", "--json", *self.files).stdout)
        self.nodes = {each["stage"]: each["node"] for each in explained}

    def target(self, stage: str) -> list[str]:
        return ["--", f"results/{stage}/{self.nodes[stage]}/manifest.json"]

    def request(self, stage: str) -> list[str]:
        """The arguments of the sbatch call for a node of the stage, up to the command."""
        quick = ["--slurm-init-seconds-before-status-checks", "1", "--retries", "0", *self.files]
        done = self.checkout.run(self.checkout.command(*quick, *self.target(stage), profile="slurm"), check=False)
        assert done.returncode == 1, done.stderr
        assert self.asked.exists(), done.stderr
        words = self.asked.read_text().splitlines()
        words = words[: next(place for place, word in enumerate(words) if word.startswith("--wrap"))]
        for name in OF_THE_RUN:
            del words[words.index(name) : words.index(name) + 2]
        return [word for word in words if word not in EVERYWHERE]

    def edit_profile(self, **values: str) -> None:
        for key, value in values.items():
            self.checkout.replace("profiles/slurm/config.yaml", f'{key}: ""', f'{key}: "{value}"')


@pytest.fixture
def recorder(folder: Path) -> Recorder:
    return Recorder(folder)


def test_each_job_asks_for_what_its_node_needs_where_the_profile_says(recorder):
    recorder.edit_profile(**MINE)
    of_corpus = ["-A", "physics", "-p", "thin", "-t", "120", "--mem", "3000", "--nodes=1", "--ntasks=1"]
    assert recorder.request("corpus") == [*of_corpus, "--cpus-per-task=2"]
    recorder.checkout.snakemake("--cores", "2", *recorder.files, *recorder.target("shards"))
    of_training = ["-A", "physics", "-p", "fat", "-t", "90", "--mem", "32000", "--nodes=1", "--cpus-per-task=16"]
    assert recorder.request("pretrain") == [*of_training, "--signal=URG@120", "--gpus=h200:4"]
