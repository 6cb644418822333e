"""One finished mini experiment and one true quickstart, each made once a session and shared by many tests."""

from pathlib import Path

import pytest

from checkouts import Checkout, Run, finished
from mini_texts import write_texts


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout.make(tmp_path / "checkout")


@pytest.fixture(scope="session")
def mini(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The mini experiment, finished; tests work on copies of it."""
    made = Checkout.make(tmp_path_factory.mktemp("mini") / "checkout")
    write_texts(made.path / "texts")
    return finished(made, *made.mini, "--cores", "2")


@pytest.fixture(scope="session")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The quickstart, whole and true; tests that alter anything work on a copy."""
    return finished(Checkout.make(tmp_path_factory.mktemp("quickstart") / "check out"))
