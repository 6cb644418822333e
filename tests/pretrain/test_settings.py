"""What can be known wrong of a training before anything runs is refused, with the value and the way out."""

import pytest
from pydantic import ValidationError

from smelt.plan.errors import DataError
from smelt.plan.settings.convert import Convert
from smelt.plan.settings.model import Model
from smelt.plan.settings.pretraining import Pretrain, Pretraining
from smelt.pretrain.stage import steps


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sequence_length": 0}, "sequence_length"),
        ({"sequence_length": 1}, "sequence_length"),
        ({"train_batch_size": 0}, "train_batch_size"),
        ({"max_steps": 0}, "max_steps"),
        ({"max_steps": 10, "num_train_epochs": 1.0}, "not several: max_steps 10, num_train_epochs 1.0"),
        (
            {"max_tokens": 1000, "sequence_length": 128, "train_batch_size": 8},
            r"max_tokens 1,000 is less than one step .* = 1,024",
        ),
        ({"warmup_steps": 10.5}, "warmup_steps 10.5: below 1 it is a share"),
        ({"warmup_steps": 50, "max_steps": 20}, "warmup_steps 50 is more than max_steps 20"),
        ({"warmup_steps": -1}, "warmup_steps"),
        ({"learning_rate": 0}, "learning_rate"),
        ({"learning_rate": "1e-3"}, "learning_rate"),
        ({"precision": "fp16"}, "'fp32' or 'bf16'"),
        ({"adam_beta2": 1.0}, "adam_beta2"),
        ({"lr_scheduler_type": "cosin"}, "'cosine', 'linear' or 'constant'"),
        ({"batch_size": 8}, "batch_size"),
    ],
)
def test_a_training_that_makes_no_sense_is_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        Pretraining.model_validate(settings, strict=True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"hidden_size": 100, "num_attention_heads": 3},
            "hidden_size 100 is no multiple of num_attention_heads 3: take 99",
        ),
        ({"hidden_size": 2, "num_attention_heads": 3}, "take 3"),
        ({"dropout": 1.0}, "dropout"),
        ({"num_hidden_layers": 0}, "num_hidden_layers"),
        ({"architecture": "gpt3"}, "gpt2"),
    ],
)
def test_a_network_that_can_not_be_built_is_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        Model.model_validate(settings)


def test_a_sequence_that_the_network_can_not_take_is_refused_before_training():
    with pytest.raises(ValidationError, match=r"sequence_length 128 is more than model.max_position_embeddings 64"):
        Pretrain.model_validate({"model": {"max_position_embeddings": 64}, "pretraining": {"sequence_length": 128}})


@pytest.mark.parametrize("size", ["5", "0GB", "five GB", "5 GB", "-1MB", "1.5GB"])
def test_a_size_that_transformers_would_misread_is_refused(size):
    with pytest.raises(ValidationError, match="is not a size"):
        Convert(max_shard_size=size)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"max_steps": 7}, 7),
        ({"max_tokens": 10_000}, 9),  # of 8 × 128 = 1,024 tokens each
        ({"num_train_epochs": 2.5}, 312),  # 2.5 × 1,000 / 8
        ({}, 125),  # one epoch
    ],
)
def test_steps_follow_from_tokens_or_epochs(settings, expected):
    assert steps(Pretraining(sequence_length=128, train_batch_size=8, **settings), 1000) == expected


def test_epochs_of_too_little_text_are_refused_with_what_there_is():
    with pytest.raises(
        DataError, match=r"holds 5 sequences of 128 tokens.*train_batch_size 8; lower that, or set max_steps"
    ):
        steps(Pretraining(sequence_length=128, train_batch_size=8), 5)
