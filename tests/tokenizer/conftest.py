"""Lines on which every kind of tokenizer must agree with its export."""

import random

import pytest

import texts
from smelt.tokenizer.parity import HARD


@pytest.fixture(scope="session")
def many() -> list[str]:
    rng = random.Random(11)
    english_and_code = [line for text in texts.library(19) for line in text.splitlines(keepends=True)]
    chinese = [texts.chinese(rng, rng.randrange(1, 60)) for _ in range(1500)]
    found = [*english_and_code[:9000], *chinese, *texts.hard(rng, 5000), *HARD, *texts.library(2), *texts.mixed(4, 12)]
    assert len(found) > 10_000
    return found
