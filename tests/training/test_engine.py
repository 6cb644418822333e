"""The engine against a plain PyTorch loop, at every ZeRO stage that one process can show."""

import os
import pickle

import pytest
import torch
from torch.nn.functional import cross_entropy, pad

from smelt.models.network import build, configuration
from smelt.plan.settings.model import Model
from smelt.plan.settings.pretraining import Pretraining
from smelt.training.batches import Division
from smelt.training.compute import prepare
from smelt.training.engine import TAG, Engine
from smelt.training.objective import causal_labels, loss_sum
from smelt.training.world import World

VOCABULARY, LENGTH, BATCH, STEPS = 64, 16, 8, 6
RATES = [1e-3 * (step + 1) for step in range(STEPS)]
SPECIAL = {"pad": 0, "bos": 1, "eos": 2}


@pytest.fixture(autouse=True)
def one_thread():
    """Of the reference as well: sums in another order are other sums."""
    prepare(1)


def network(dropout=0.0, **more):
    model = Model(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=LENGTH,
        dropout=dropout,
        **more,
    )
    return build(configuration(model, VOCABULARY, SPECIAL), seed=1)


def plan(**more):
    return Pretraining(
        sequence_length=LENGTH, train_batch_size=BATCH, max_steps=STEPS, **{"max_grad_norm": 1e9, **more}
    )


def batch(step):
    """Tokens that follow a rule, so that losses fall: [BATCH, LENGTH] int64."""
    start = torch.randint(0, VOCABULARY, (BATCH, 1), generator=torch.Generator().manual_seed(step))
    return (start + 3 * torch.arange(LENGTH)) % VOCABULARY


def plain(settings, micro_batches=1, **more):
    """Losses, gradient norms and weights of a loop without DeepSpeed or any code of ours but the network's."""
    model = network(**more).train()
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": matrices, "weight_decay": settings.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=(settings.adam_beta1, settings.adam_beta2), fused=True)
    losses, norms = [], []
    for step, rate in enumerate(RATES):
        total = 0.0
        for tokens in batch(step).chunk(micro_batches):
            logits = model(input_ids=tokens).logits
            following = pad(tokens[:, 1:], (0, 1), value=-100)
            loss = cross_entropy(logits.view(-1, VOCABULARY), following.view(-1), reduction="sum")
            loss = loss / (BATCH * (LENGTH - 1))
            loss.backward()
            total += loss.item()
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), settings.max_grad_norm)))
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total)
    return losses, norms, {name: p.detach().clone() for name, p in model.named_parameters()}


class Trial:
    """An engine for `network`, driven through the steps of `plain`."""

    def __init__(self, settings, zero_stage, micro_batches=1, **more):
        self.division = Division.of(BATCH, 1, BATCH // micro_batches, LENGTH)
        self.engine = Engine(network(**more), settings, self.division, World.join(False), zero_stage)

    def step(self, step, spoil=1.0):
        self.engine.train()
        total = 0.0
        for tokens in batch(step).split(self.division.micro_batch):
            loss = loss_sum(self.engine.logits(tokens), causal_labels(tokens)) / (BATCH * (LENGTH - 1))
            self.engine.backward(loss * spoil)
            total += loss.item()
        return total, self.engine.update(RATES[step])

    def run(self):
        losses, norms = zip(*(self.step(step) for step in range(STEPS)), strict=True)
        return list(losses), list(norms), self.engine.weights()


def furthest(first, second):
    return max(float((first[name] - second[name]).abs().max()) for name in first)


@pytest.mark.parametrize("micro_batches", [1, 2])
@pytest.mark.parametrize("zero_stage", [0, 1, 2, 3])
def test_training_equals_a_plain_loop_to_the_bit_while_clipping_is_idle(zero_stage, micro_batches):
    losses, norms, weights = plain(plan(), micro_batches)
    ours = Trial(plan(), zero_stage, micro_batches).run()
    assert losses[-1] < losses[0] - 0.2
    assert ours[0] == losses
    assert ours[1] == pytest.approx(norms, rel=1e-5)
    assert furthest(weights, ours[2]) == 0


@pytest.mark.parametrize("zero_stage", [0, 1, 2])
def test_training_equals_a_plain_loop_to_1e5_where_clipping_fires(zero_stage):
    settings = plan(max_grad_norm=0.1)
    losses, norms, weights = plain(settings)
    assert min(norms) > 0.1  # it fires in every step
    assert furthest(weights, plain(plan())[2]) > 1e-4  # and matters
    ours = Trial(settings, zero_stage).run()
    assert ours[0] == pytest.approx(losses, abs=1e-5)
    assert ours[1] == pytest.approx(norms, rel=1e-4)  # of the gradient before clipping
    assert furthest(weights, ours[2]) < 1e-5


@pytest.mark.parametrize("zero_stage", [0, 2])
def test_accumulating_over_smaller_micro_batches_changes_rounding_only(zero_stage):
    whole, parts = Trial(plan(), zero_stage, 1).run(), Trial(plan(), zero_stage, 4).run()
    assert parts[0] == pytest.approx(whole[0], abs=1e-6)
    assert parts[1] == pytest.approx(whole[1], rel=1e-5)
    assert furthest(whole[2], parts[2]) < 1e-4  # AdamW enlarges rounding where a gradient is near 0


def test_the_loss_is_that_of_transformers():
    model, tokens = network(), batch(0)
    ours = loss_sum(model(input_ids=tokens).logits, causal_labels(tokens)) / (BATCH * (LENGTH - 1))
    theirs = model(input_ids=tokens, labels=tokens).loss
    assert ours.item() == pytest.approx(theirs.item(), abs=1e-6)


@pytest.mark.parametrize("zero_stage", [0, 1, 2])
@pytest.mark.parametrize("spoil", [float("nan"), float("inf")])
def test_a_step_that_is_not_finite_leaves_weights_and_optimizer_as_they_were(zero_stage, spoil):
    trial = Trial(plan(), zero_stage)
    trial.step(0)
    before = trial.engine.weights()
    _, norm = trial.step(1, spoil)
    assert not norm < float("inf")
    assert furthest(before, trial.engine.weights()) == 0
    trial.step(2)
    untroubled = Trial(plan(), zero_stage)
    untroubled.step(0)
    untroubled.step(2)
    assert furthest(untroubled.engine.weights(), trial.engine.weights()) == 0


@pytest.mark.parametrize("zero_stage", [0, 1, 2, 3])
def test_a_loaded_engine_goes_on_as_if_never_saved(tmp_path, zero_stage):
    first = Trial(plan(), zero_stage)
    first.step(0)
    first.engine.save(tmp_path)
    second = Trial(plan(), zero_stage)
    second.engine.load(tmp_path)
    assert first.step(1) == second.step(1)
    assert furthest(first.engine.weights(), second.engine.weights()) == 0


def test_a_checkpoint_can_not_run_code(tmp_path):
    class Attack:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "attacked"),)

    trial = Trial(plan(), 0)
    trial.engine.save(tmp_path)
    path = tmp_path / TAG / "mp_rank_00_model_states.pt"
    torch.save({"module": Attack()}, path)
    with pytest.raises(pickle.UnpicklingError):
        trial.engine.load(tmp_path)
    assert not (tmp_path / "attacked").exists()


def test_bfloat16_multiplies_in_bfloat16_and_keeps_float32_weights():
    trial = Trial(plan(precision="bf16"), 2)
    tokens = batch(0)
    rounded, exact = trial.engine.logits(tokens), network()(input_ids=tokens).logits
    assert rounded.dtype == torch.bfloat16
    assert 0 < (rounded - exact).abs().max().item() < 0.05
    losses, _, weights = trial.run()
    reference, _, expected = plain(plan())
    assert {tensor.dtype for tensor in weights.values()} == {torch.float32}
    assert losses == pytest.approx(reference, abs=0.02)
    assert 0 < furthest(expected, weights) < 0.02
