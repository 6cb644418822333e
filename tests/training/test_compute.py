"""Where arithmetic runs: what was granted and is not there is said, and the work goes on."""

import os

import pytest
import torch

from smelt.training.compute import prepare

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")


@pytest.mark.parametrize(("gpus", "granted"), [(1, "1 GPU was granted"), (4, "4 GPUs were granted")])
def test_a_gpu_that_is_not_there_is_said_and_the_cpu_taken(monkeypatch, gpus, granted):
    monkeypatch.delenv("DS_ACCELERATOR", raising=False)
    said = []
    assert prepare(1, gpus, said.append) == torch.device("cpu")
    assert said == [f"{granted}, torch sees none: on the CPU (see `smelt doctor`)"]
    assert os.environ["DS_ACCELERATOR"] == "cpu"


def test_without_a_gpu_nothing_is_said(monkeypatch):
    monkeypatch.delenv("DS_ACCELERATOR", raising=False)
    said = []
    assert prepare(1, 0, said.append) == torch.device("cpu")
    assert said == []
    assert os.environ["DS_ACCELERATOR"] == "cpu"
