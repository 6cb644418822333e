"""The cache of downloads: whole or absent, checked on each use, fetched once by many jobs."""

import hashlib
import multiprocessing
import os
import time
from pathlib import Path

import pytest

from smelt.data.cache import Expected, cached, folder
from smelt.plan.errors import DataError
from smelt.plan.job import Job

DATA = b"some text\n" * 1000
EXPECTED = Expected({"sha256": hashlib.sha256(DATA).hexdigest()}, len(DATA))


def test_a_file_lies_under_its_checksum_and_is_fetched_once(downloads: Path, job: Job) -> None:
    fetched = []

    def fetch(part: Path) -> None:
        fetched.append(part)
        part.write_bytes(DATA)

    for _ in range(3):
        assert cached(EXPECTED, "file", fetch, job) == downloads / EXPECTED.digests["sha256"]
    assert len(fetched) == 1
    assert (downloads / EXPECTED.key).read_bytes() == DATA


def test_a_file_known_by_md5_alone_has_a_name_of_its_own(downloads: Path, job: Job) -> None:
    expected = Expected({"md5": hashlib.md5(DATA).hexdigest()})
    assert (
        cached(expected, "file", lambda part: part.write_bytes(DATA), job).name
        == f"md5-{hashlib.md5(DATA).hexdigest()}"
    )


def test_a_flipped_byte_in_the_cache_is_found_and_the_file_fetched_again(downloads: Path, job: Job) -> None:
    path = cached(EXPECTED, "file", lambda part: part.write_bytes(DATA), job)
    path.write_bytes(b"S" + DATA[1:])
    cached(EXPECTED, "file", lambda part: part.write_bytes(DATA), job)
    assert path.read_bytes() == DATA
    assert "fetching it again" in job.terminal.getvalue()


def test_a_fetch_that_fails_leaves_no_file_but_what_can_be_gone_on_with(downloads: Path, job: Job) -> None:
    def fetch(part: Path) -> None:
        part.write_bytes(DATA[:100])
        raise DataError("broke off")

    with pytest.raises(DataError):
        cached(EXPECTED, "file", fetch, job)
    assert not (downloads / EXPECTED.key).exists()
    assert (downloads / f"{EXPECTED.key}.part").read_bytes() == DATA[:100]


def _slow_job(root: str, started: float) -> None:
    os.environ["SMELT_CACHE"] = root
    job = Job({"stage": "corpus", "settings": {}, "upstream": {}, "code": ""}, Path(root) / "results/corpus/x")

    def fetch(part: Path) -> None:
        with (folder().parent / "fetched").open("a") as file:
            file.write("x")
        time.sleep(0.5)
        part.write_bytes(DATA)

    time.sleep(max(0.0, started - time.time()))
    assert cached(EXPECTED, "file", fetch, job).read_bytes() == DATA


def test_two_jobs_that_want_the_same_file_fetch_it_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    jobs = [context.Process(target=_slow_job, args=(str(tmp_path), time.time() + 0.2)) for _ in range(3)]
    for each in jobs:
        each.start()
    for each in jobs:
        each.join(30)
    assert [each.exitcode for each in jobs] == [0, 0, 0]
    assert (tmp_path / "fetched").read_text() == "x"


def test_a_shared_cache_that_may_only_be_read_serves_what_it_holds(
    downloads: Path, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = cached(EXPECTED, "file", lambda part: part.write_bytes(DATA), job)
    for each in (*downloads.iterdir(), downloads):
        each.chmod(0o555 if each.is_dir() else 0o444)
    before = sorted(downloads.iterdir())
    assert cached(EXPECTED, "file", lambda part: pytest.fail("it is there"), job) == path
    assert sorted(downloads.iterdir()) == before
    downloads.chmod(0o755)
