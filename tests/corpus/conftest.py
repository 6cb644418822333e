"""Results in a folder that the test names."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def results_at(results: Any) -> Callable[[Path], Any]:
    """A results folder like the fixture `results`, elsewhere."""
    return type(results)
