"""Release files from an index as pip is configured to use it; here a folder or a local server stands in for the index."""

import base64
import hashlib
import io
import json
import os
import re
import tarfile
from pathlib import Path

import pytest

from smelt.data.packages import PipConfiguration, project_of
from smelt.data.sources import OpenSource
from smelt.plan.errors import DataError
from smelt.plan.job import Job
from smelt.plan.settings.source import PackageSource
from web_server import Site, gives, refuses

RELEASE = "Some_Data-1.0.tar.gz"


def sdist(tmp_path: Path) -> bytes:
    """A release whose setup.py would leave a trace if anything ran it."""
    files = {
        "data/text.txt": b"one line\n",
        "setup.py": f"open({str(tmp_path / 'ran')!r}, 'w')\n".encode(),
        "PKG-INFO": b"Name: some-data\n",
    }
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(f"Some_Data-1.0/{name}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


@pytest.fixture
def pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty pip configuration file that pip is told to use alone."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path / "home"))
    return tmp_path / "pip.conf"


def text_of_the_release(data: bytes, job: Job, release: str = RELEASE) -> bytes:
    source = PackageSource(
        kind="package", release=release, sha256=hashlib.sha256(data).hexdigest(), member="*/data/text.txt"
    )
    return b"".join(entry.stream.read() for entry in OpenSource(source).files(job))


def serve(site: Site, data: bytes, page: str = "html") -> None:
    site.pages[f"/files/{RELEASE}"] = [gives(data)]
    if page == "html":
        listed = f'<html><body><a href="../../files/{RELEASE}#sha256=0">{RELEASE}</a></body></html>'.encode()
        site.pages["/simple/some-data/"] = [gives(listed, kind="text/html")]
    else:
        files = [{"filename": RELEASE, "url": site.url(f"/files/{RELEASE}"), "hashes": {}}]
        listed = json.dumps({"meta": {"api-version": "1.0"}, "name": "some-data", "files": files}).encode()
        site.pages["/simple/some-data/"] = [gives(listed, kind="application/vnd.pypi.simple.v1+json")]


@pytest.mark.parametrize("page", ["html", "json"])
def test_a_release_comes_from_the_index_in_pip_s_configuration_file(
    site: Site, pip: Path, downloads: Path, job: Job, tmp_path: Path, page: str
) -> None:
    data = sdist(tmp_path)
    serve(site, data, page)
    pip.write_text(f"[global]\nindex-url = {site.url('/simple')}\n")
    assert text_of_the_release(data, job) == b"one line\n"
    assert not (tmp_path / "ran").exists()


def test_the_environment_goes_before_the_file_and_a_busy_index_is_asked_again(
    site: Site, pip: Path, downloads: Path, job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = sdist(tmp_path)
    serve(site, data)
    site.pages["/simple/some-data/"].insert(0, refuses(503, Retry_After="0"))
    pip.write_text(f"[global]\nindex-url = {site.url('/wrong')}\n")
    monkeypatch.setenv("PIP_INDEX_URL", site.url("/simple/"))
    assert text_of_the_release(data, job) == b"one line\n"
    assert not any(path.startswith("/wrong") for path, _ in site.requests)


def test_a_second_index_is_asked_when_the_first_has_no_such_project(
    site: Site, pip: Path, downloads: Path, job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = sdist(tmp_path)
    serve(site, data)
    pip.write_text(
        f"[global]\nindex-url = {site.url('/empty')}\nextra-index-url =\n    {site.url('/none')}\n    {site.url('/simple')}\n"
    )
    assert text_of_the_release(data, job) == b"one line\n"


def test_an_index_may_be_a_folder(pip: Path, downloads: Path, job: Job, tmp_path: Path) -> None:
    data = sdist(tmp_path)
    folder = tmp_path / "my index" / "some-data"
    folder.mkdir(parents=True)
    (folder / RELEASE).write_bytes(data)
    (folder / "index.html").write_text(f'<a href="{RELEASE}">{RELEASE}</a>')
    pip.write_text(f"[global]\nindex-url = {(tmp_path / 'my index').as_uri()}\n")
    assert text_of_the_release(data, job) == b"one line\n"


@pytest.mark.parametrize("how", ["folder", "file address", "page"])
def test_find_links_serve_without_an_index(
    site: Site, pip: Path, downloads: Path, job: Job, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = sdist(tmp_path)
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / RELEASE).write_bytes(data)
    site.pages["/links.html"] = [gives(f'<a href="files/{RELEASE}">the data</a>'.encode(), kind="text/html")]
    site.pages[f"/files/{RELEASE}"] = [gives(data)]
    link = {
        "folder": str(tmp_path / "wheels"),
        "file address": (tmp_path / "wheels").as_uri(),
        "page": site.url("/links.html"),
    }[how]
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", link)
    assert text_of_the_release(data, job) == b"one line\n"


def test_an_index_behind_a_password_gets_it_and_nobody_else_sees_it(
    site: Site, pip: Path, downloads: Path, job: Job, tmp_path: Path
) -> None:
    data = sdist(tmp_path)
    serve(site, data)
    pip.write_text(f"[global]\nindex-url = {re.sub('//', '//me:hunter2@', site.url('/simple'))}\n")
    text_of_the_release(data, job)
    assert site.requests[0][1]["Authorization"] == f"Basic {base64.b64encode(b'me:hunter2').decode()}"
    with pytest.raises(DataError) as raised:
        text_of_the_release(b"other", job, "Some_Data-2.0.tar.gz")
    assert "hunter2" not in str(raised.value) + job.terminal.getvalue()


def test_a_release_that_is_not_there_names_the_nearest(
    site: Site, pip: Path, downloads: Path, job: Job, tmp_path: Path
) -> None:
    serve(site, sdist(tmp_path))
    pip.write_text(f"[global]\nindex-url = {site.url('/simple')}\n")
    with pytest.raises(DataError, match=r"Some_Data-1\.1\.tar\.gz: not found .*did you mean 'Some_Data-1\.0\.tar\.gz'"):
        text_of_the_release(b"", job, "Some_Data-1.1.tar.gz")


def test_a_release_with_another_checksum_is_refused(
    site: Site, pip: Path, downloads: Path, job: Job, tmp_path: Path
) -> None:
    serve(site, sdist(tmp_path))
    pip.write_text(f"[global]\nindex-url = {site.url('/simple')}\n")
    with pytest.raises(DataError, match=r"the settings say " + hashlib.sha256(b"expected").hexdigest()):
        text_of_the_release(b"expected", job)
    assert not list(downloads.glob("*[0-9a-f]"))


def test_no_project_and_no_index_are_told_apart(
    site: Site, pip: Path, downloads: Path, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip.write_text(f"[global]\nindex-url = {site.url('/simple')}\n")
    with pytest.raises(DataError, match=r"has no project 'some-data'"):
        text_of_the_release(b"", job)
    monkeypatch.setenv("PIP_NO_INDEX", "yes")
    with pytest.raises(DataError, match=r"no index and no find-links"):
        text_of_the_release(b"", job)


def test_pip_s_options_reach_the_connection(pip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pip.write_text(
        "[global]\nproxy = http://proxy.test:3128\ntimeout = 7\ntrusted-host = inner.test other.test:8080\ncert = /some/ca.pem\n"
    )
    configuration = PipConfiguration.read()
    assert configuration.session().proxies["https"] == "http://proxy.test:3128"
    assert configuration.verify("https://inner.test/simple") is False
    assert configuration.verify("https://other.test:8080/simple") is False
    assert configuration.verify("https://outer.test/simple") == "/some/ca.pem"
    assert configuration.options["timeout"] == "7"


@pytest.mark.parametrize(
    ("release", "project"),
    [
        ("gensim-4.4.0.tar.gz", "gensim"),
        ("vaderSentiment-3.3.2.tar.gz", "vadersentiment"),
        ("chatterbot_corpus-1.3.3-py2.py3-none-any.whl", "chatterbot-corpus"),
        ("old-style-name-0.1.zip", "old-style-name"),
    ],
)
def test_the_project_follows_from_the_release(release: str, project: str) -> None:
    assert project_of(release) == project


def test_a_name_that_is_no_release_s_is_refused() -> None:
    with pytest.raises(DataError, match=r"no name of a release file"):
        project_of("data.tar.gz")
