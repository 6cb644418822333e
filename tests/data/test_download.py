"""Downloads from a server that breaks off, lies, redirects and is busy."""

import base64
import email.utils
import hashlib
import random
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import requests

from smelt.data.cache import Expected
from smelt.data.download import Patience, download
from smelt.data.packages import PipConfiguration
from smelt.plan.errors import DataError
from smelt.plan.job import Job
from web_server import Site, gives, refuses, says_it_has, sends_another_part, sends_to

DATA = random.Random(7).randbytes(300_000)
SHA256 = hashlib.sha256(DATA).hexdigest()
EXPECTED = Expected({"sha256": SHA256})
QUICK = Patience(attempts=4, first_wait=0.02, longest_wait=3, connect=5, silence=5)


def fetch(site: Site, part: Path, job: Job, *paths: str, expected: Expected = EXPECTED) -> None:
    download([site.url(path) for path in paths or ("/file",)], part, expected, job, patience=QUICK)


def ranges(site: Site) -> list[str | None]:
    return [headers.get("Range") for _, headers in site.requests]


def test_a_download_that_breaks_off_goes_on_where_it_broke(site: Site, tmp_path: Path, job: Job) -> None:
    site.pages["/file"] = [gives(DATA, after=100_000), gives(DATA, after=50_000), gives(DATA)]
    fetch(site, tmp_path / "part", job)
    assert (tmp_path / "part").read_bytes() == DATA
    assert ranges(site) == [None, "bytes=100000-", "bytes=150000-"]
    assert "broke off" in job.terminal.getvalue()


def test_many_breaks_do_not_use_up_the_attempts_while_bytes_come(site: Site, tmp_path: Path, job: Job) -> None:
    site.pages["/file"] = [*[gives(DATA, after=20_000)] * (QUICK.attempts * 3), gives(DATA)]
    fetch(site, tmp_path / "part", job)
    assert (tmp_path / "part").read_bytes() == DATA


def test_what_a_killed_download_left_is_gone_on_with(site: Site, tmp_path: Path, job: Job) -> None:
    (tmp_path / "part").write_bytes(DATA[:123_456])
    site.pages["/file"] = [gives(DATA)]
    fetch(site, tmp_path / "part", job)
    assert (tmp_path / "part").read_bytes() == DATA
    assert ranges(site) == ["bytes=123456-"]


def test_a_server_without_ranges_is_read_from_the_start(site: Site, tmp_path: Path, job: Job) -> None:
    (tmp_path / "part").write_bytes(DATA[:1000])
    site.pages["/file"] = [gives(DATA, ranges=False)]
    fetch(site, tmp_path / "part", job)
    assert (tmp_path / "part").read_bytes() == DATA


@pytest.mark.parametrize("left", [b"other bytes", DATA + b"too much"], ids=["of another file", "longer than the file"])
def test_a_part_that_is_of_another_file_is_thrown_away(site: Site, tmp_path: Path, job: Job, left: bytes) -> None:
    (tmp_path / "part").write_bytes(left)
    site.pages["/file"] = [gives(DATA)]
    fetch(site, tmp_path / "part", job)
    assert (tmp_path / "part").read_bytes() == DATA
    assert ranges(site)[-1] is None


def test_a_server_that_refuses_a_range_that_was_not_asked_for_is_given_up_in_words(
    site: Site, tmp_path: Path, job: Job
) -> None:
    site.pages["/file"] = [refuses(416)]
    with pytest.raises(DataError, match="the server has less than was fetched before"):
        fetch(site, tmp_path / "part", job)


def test_a_server_that_sends_another_part_than_asked_for_spoils_nothing(site: Site, tmp_path: Path, job: Job) -> None:
    (tmp_path / "part").write_bytes(DATA[:1000])
    site.pages["/file"] = [sends_another_part(DATA), gives(DATA)]
    fetch(site, tmp_path / "part", job)
    assert (tmp_path / "part").read_bytes() == DATA


@pytest.mark.parametrize("status", [404, 403, 410])
def test_a_refusal_is_told_at_once_with_status_and_address(site: Site, tmp_path: Path, job: Job, status: int) -> None:
    site.pages["/file"] = [refuses(status)]
    with pytest.raises(DataError, match=rf"/file: {status} .*Check the address"):
        fetch(site, tmp_path / "part", job)
    assert len(site.requests) == 1


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_asked_again_after_the_seconds_it_names(
    site: Site, tmp_path: Path, job: Job, status: int
) -> None:
    site.pages["/file"] = [refuses(status, Retry_After="1"), gives(DATA)]
    started = time.monotonic()
    fetch(site, tmp_path / "part", job)
    assert (tmp_path / "part").read_bytes() == DATA
    assert time.monotonic() - started >= 1
    assert f"{status} " in job.terminal.getvalue()


def test_a_busy_server_may_name_a_date(site: Site, tmp_path: Path, job: Job) -> None:
    at = email.utils.formatdate(time.time() + 2, usegmt=True)  # whole seconds: 1 to 2 s from now
    site.pages["/file"] = [refuses(503, Retry_After=at), gives(DATA)]
    started = time.monotonic()
    fetch(site, tmp_path / "part", job)
    assert time.monotonic() - started >= 0.9


def test_a_server_that_asks_for_too_long_a_wait_is_given_up(site: Site, tmp_path: Path, job: Job) -> None:
    site.pages["/file"] = [refuses(429, Retry_After="86400")]
    started = time.monotonic()
    with pytest.raises(DataError, match=r"429"):
        fetch(site, tmp_path / "part", job)
    assert time.monotonic() - started < 5


def test_a_server_that_stays_busy_is_given_up_after_the_attempts(site: Site, tmp_path: Path, job: Job) -> None:
    site.pages["/file"] = [refuses(503)]
    with pytest.raises(DataError, match=f"503.*after {QUICK.attempts} attempts"):
        fetch(site, tmp_path / "part", job)
    assert len(site.requests) == QUICK.attempts


def test_a_redirect_is_followed(site: Site, tmp_path: Path, job: Job) -> None:
    site.pages["/file"] = [sends_to(site.url("/there"))]
    site.pages["/there"] = [gives(DATA)]
    fetch(site, tmp_path / "part", job)
    assert (tmp_path / "part").read_bytes() == DATA


@pytest.mark.parametrize("target", ["/file", "ftp://127.0.0.1/file"], ids=["in a circle", "to another protocol"])
def test_a_redirect_that_leads_nowhere_is_an_error(site: Site, tmp_path: Path, job: Job, target: str) -> None:
    site.pages["/file"] = [sends_to(target)]
    with pytest.raises(DataError, match=r"redirects"):
        fetch(site, tmp_path / "part", job)


def test_mirrors_are_tried_in_order_and_a_wrong_one_is_passed_over(site: Site, tmp_path: Path, job: Job) -> None:
    site.pages["/wrong"] = [gives(b"<html>moved</html>")]
    site.pages["/right"] = [gives(DATA)]
    fetch(site, tmp_path / "part", job, "/gone", "/wrong", "/right", "/never")
    assert (tmp_path / "part").read_bytes() == DATA
    assert [path for path, _ in site.requests] == ["/gone", "/wrong", "/right"]


def test_a_file_with_another_checksum_is_refused_and_both_checksums_told(site: Site, tmp_path: Path, job: Job) -> None:
    site.pages["/file"] = [gives(b"altered")]
    found = hashlib.sha256(b"altered").hexdigest()
    with pytest.raises(DataError, match=f"has sha256 {found}, the settings say {SHA256}"):
        fetch(site, tmp_path / "part", job)
    assert not (tmp_path / "part").exists()


@pytest.mark.parametrize("algorithm", ["md5", "sha1"])
def test_other_checksums_are_checked_too(site: Site, tmp_path: Path, job: Job, algorithm: str) -> None:
    site.pages["/file"] = [gives(DATA)]
    fetch(
        site,
        tmp_path / "part",
        job,
        expected=Expected({algorithm: hashlib.new(algorithm, DATA).hexdigest()}, len(DATA)),
    )
    with pytest.raises(DataError, match=f"has {algorithm}"):
        fetch(
            site, tmp_path / "other", job, expected=Expected({algorithm: "0" * len(hashlib.new(algorithm).hexdigest())})
        )


def test_a_file_of_another_size_is_refused_before_it_is_fetched(site: Site, tmp_path: Path, job: Job) -> None:
    site.pages["/file"] = [gives(DATA)]
    with pytest.raises(DataError, match=r"has 300,000 bytes, the settings say size=299,999"):
        fetch(site, tmp_path / "part", job, expected=Expected({"sha256": SHA256}, 299_999))
    assert not (tmp_path / "part").exists()


@pytest.mark.parametrize("length", [len(DATA) - 5, len(DATA) + 5], ids=["too small", "too large"])
def test_a_server_that_lies_about_the_size_is_not_believed(site: Site, tmp_path: Path, job: Job, length: int) -> None:
    site.pages["/file"] = [says_it_has(DATA, length)]
    site.pages["/right"] = [gives(DATA)]
    fetch(site, tmp_path / "part", job, "/file", "/right")
    assert (tmp_path / "part").read_bytes() == DATA


def test_a_server_that_is_not_there_is_an_error_with_the_system_s_word_for_it(tmp_path: Path, job: Job) -> None:
    gone = Site()
    gone.close()
    with pytest.raises(DataError, match=r"Connection refused"):
        fetch(gone, tmp_path / "part", job)


@pytest.mark.parametrize(
    "session", [requests.Session, lambda: PipConfiguration({}).session()], ids=["address", "index"]
)
def test_a_login_is_taken_from_netrc(
    site: Site, tmp_path: Path, job: Job, monkeypatch: pytest.MonkeyPatch, session: Callable[[], requests.Session]
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login ada password pa55\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    site.pages["/file"] = [gives(DATA)]
    download([site.url("/file")], tmp_path / "part", EXPECTED, job, session(), QUICK)
    assert site.requests[0][1]["Authorization"] == "Basic " + base64.b64encode(b"ada:pa55").decode()


def test_secrets_in_an_address_are_never_told(site: Site, tmp_path: Path, job: Job) -> None:
    url = re.sub("//", "//reader:hunter2@", site.url("/file?token=s3cret"))
    site.pages["/file"] = [refuses(503), refuses(403)]
    with pytest.raises(DataError) as raised:
        download([url], tmp_path / "part", EXPECTED, job, patience=QUICK)
    gone = re.sub(r":\d+/", ":9/", url)
    with pytest.raises(DataError) as unreachable:
        download([gone], tmp_path / "part", EXPECTED, job, patience=QUICK)
    told = str(raised.value) + str(unreachable.value) + job.terminal.getvalue()
    assert "/file" in told
    assert "hunter2" not in told
    assert "s3cret" not in told
