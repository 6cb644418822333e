"""What a process reads: derived from batch, machine and step, and the same data for any number of processes."""

from itertools import chain

import numpy as np
import pytest
import torch

from smelt.data.order import Order
from smelt.plan.errors import SmeltError
from smelt.training.batches import Batches, Division
from smelt.training.world import World


class Rows:
    """Sequence i is [i, i, i]."""

    def __getitems__(self, indices):
        return np.repeat(np.asarray(indices, np.int64)[:, None], 3, axis=1)


def read(step, processes, rank, size=12, micro_batch=0, seed=7, samples=50):
    """The samples of each micro-batch."""
    world = World(rank, processes, torch.device("cpu"))
    batches = Batches(Rows(), Order(samples, seed), Division.of(size, processes, micro_batch, 3), world)
    return [tokens[:, 0].tolist() for tokens in batches.micro_batches(step)]


def test_a_global_batch_is_the_same_for_any_number_of_processes():
    for step in (0, 3, 4, 1000):
        whole = list(chain.from_iterable(read(step, 1, 0)))
        for processes, micro_batch in ((1, 4), (2, 0), (2, 3), (3, 2), (4, 1), (6, 0)):
            parts = [read(step, processes, rank, micro_batch=micro_batch) for rank in range(processes)]
            assert [sample for part in parts for tokens in part for sample in tokens] == whole


def test_an_epoch_shows_every_sequence_once_across_batches_that_straddle_its_end():
    seen = [sample for step in range(25) for tokens in read(step, 1, 0) for sample in tokens]  # 25 × 12 = 6 × 50
    for epoch in range(6):
        assert sorted(seen[50 * epoch : 50 * (epoch + 1)]) == list(range(50))
    assert seen[:50] != seen[50:100]


def test_micro_batches_are_of_the_size_asked_for():
    assert [len(tokens) for tokens in read(0, 2, 1, size=24, micro_batch=3)] == [3, 3, 3, 3]


@pytest.mark.parametrize(
    ("batch", "processes", "micro_batch", "length", "expected"),
    [
        (64, 1, 0, 128, (64, 1)),
        (64, 2, 8, 128, (8, 4)),
        (512, 1, 0, 1024, (16, 32)),  # 16 × 1,024 tokens are the most
        (6, 1, 0, 4096, (3, 2)),  # 4 would fit, 3 is the largest that divides 6
        (2, 1, 0, 100_000, (1, 2)),
    ],
)
def test_accumulation_follows_from_batch_and_machine(batch, processes, micro_batch, length, expected):
    division = Division.of(batch, processes, micro_batch, length)
    assert (division.micro_batch, division.accumulation) == expected
    assert division.micro_batch * division.accumulation * division.world == batch


def test_a_batch_that_the_processes_can_not_share_is_refused_with_what_could_be():
    with pytest.raises(SmeltError, match=r"train_batch_size 64 .* 3 processes: take 2 processes, or a multiple of 3"):
        Division.of(64, 3, 0, 128)


def test_a_micro_batch_that_does_not_divide_is_refused_with_what_does():
    with pytest.raises(SmeltError, match=r"micro_batch 5 .* one of 1, 2, 3, 4, 6, 8, 12, 24"):
        Division.of(48, 2, 5, 128)
