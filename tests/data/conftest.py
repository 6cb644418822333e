"""A job to speak through, a site to download from, and a cache of one's own."""

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from smelt.plan.job import Job
from web_server import Site


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """What is said to the terminal can be read with `job.terminal.getvalue()`."""
    spec = {"stage": "corpus", "settings": {}, "upstream": {}, "code": ""}
    return Job(spec, tmp_path / "results" / "corpus" / "x-0123456789", terminal=io.StringIO())


@pytest.fixture
def site() -> Iterator[Site]:
    served = Site()
    yield served
    served.close()


@pytest.fixture
def downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of downloads."""
    monkeypatch.setenv("SMELT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "downloads"
