"""The learning rate against transformers' schedulers and values worked out by hand."""

import math

import pytest

from smelt.plan.settings.pretraining import Pretraining
from smelt.training.schedule import Schedule


def schedule(total=100, **settings):
    return Schedule.of(Pretraining(learning_rate=1.0, **settings), total)


def theirs(name, total, warmup, **more):
    """What transformers multiplies the rate by, at every step."""
    import torch
    from transformers import get_scheduler

    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    lambdas = get_scheduler(name, optimizer, warmup, total, scheduler_specific_kwargs=more or None).lr_lambdas
    return [lambdas[0](step) for step in range(total)]


@pytest.mark.parametrize(
    ("kind", "name", "floor"),
    [("cosine", "cosine", 0.0), ("cosine", "cosine_with_min_lr", 0.1), ("linear", "linear", 0.0)],
)
def test_the_decay_is_that_of_transformers(kind, name, floor):
    more = {"min_lr_rate": floor} if floor else {}
    ours = schedule(lr_scheduler_type=kind, warmup_steps=10, min_lr_rate=floor)
    expected = theirs(name, 100, 10, **more)
    assert [ours(step) for step in range(10, 100)] == pytest.approx(expected[10:], abs=1e-12)


def test_the_warm_up_rises_in_equal_steps_and_wastes_none():
    rates = [schedule(warmup_steps=4)(step) for step in range(5)]
    assert rates == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])


def test_a_warm_up_below_one_is_a_share_of_all_steps():
    assert schedule(warmup_steps=0.1).warmup == 10
    assert schedule(total=1000, warmup_steps=0.1).warmup == 100
    assert schedule(warmup_steps=7).warmup == 7
    assert schedule(warmup_steps=0)(0) == 1.0


def test_the_decay_ends_at_the_floor():
    for kind in ("cosine", "linear"):
        ours = schedule(total=1000, lr_scheduler_type=kind, warmup_steps=0, min_lr_rate=0.1)
        assert ours(1000) == pytest.approx(0.1)
        assert ours(500) == pytest.approx(0.55)  # half-way between 1 and 0.1 for both
    quarter = schedule(total=1000, warmup_steps=0, min_lr_rate=0)(250)
    assert quarter == pytest.approx(0.5 * (1 + math.sqrt(0.5)))


def test_a_constant_rate_stays():
    ours = schedule(lr_scheduler_type="constant", warmup_steps=2)
    assert {ours(step) for step in range(2, 100)} == {1.0}
