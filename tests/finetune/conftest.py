"""Hand-made upstream nodes, once for all tests of the stage."""

from collections.abc import Callable
from typing import Any

import pytest

import tiny
from smelt.plan.manifest import Manifest

SETTINGS = {
    "num_train_epochs": 3,
    "train_batch_size": 16,
    "learning_rate": 5e-3,
    "logging_steps": 4,
    "eval_batch_size": 16,
}


@pytest.fixture
def upstream(results: Any) -> dict[str, Manifest]:
    return {"convert": tiny.converted(results.root), "task": tiny.labelled(results.root)}


@pytest.fixture
def talk(results: Any) -> dict[str, Manifest]:
    return {"convert": tiny.converted(results.root), "task": tiny.dialogue(results.root)}


@pytest.fixture
def finetune(results: Any) -> Callable[..., Manifest]:
    """`finetune(upstream, label="a", **settings)` with settings that learn in seconds."""

    def run(
        upstream: dict[str, Manifest], label: str = "tune", options: dict[str, Any] | None = None, **changed: Any
    ) -> Manifest:
        return results.run("finetune", label, {**SETTINGS, **changed}, options=options, **upstream)

    return run
