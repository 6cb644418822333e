"""One cluster a session."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_cluster import Cluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if reason := Cluster.hindrance():
        pytest.skip(reason)
    made = Cluster(tmp_path_factory.mktemp("slurm") / "cluster")
    try:
        try:
            made.start()
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            pytest.skip(f"no cluster starts on this machine: {error}")
        yield made
    finally:
        made.stop()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "checkout"
