"""Release files from the package index that pip is configured to use: found and read, never installed.

pip itself is asked for its configuration (files and environment), so whatever makes `pip install` work makes this work:
index-url, extra-index-url, find-links, no-index, proxy, cert, client-cert, trusted-host, timeout.
"""

import ast
import difflib
import os
import shutil
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from pypi_simple import PYPI_SIMPLE_ENDPOINT, NoSuchProjectError, ProjectPage, PyPISimple, UnsupportedContentTypeError
from pypi_simple.html import RepositoryPage
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from smelt.data.cache import Expected
from smelt.data.download import cause, download, shown
from smelt.data.storage import storing
from smelt.plan.errors import DataError
from smelt.plan.job import Job

SECTIONS = ("global", "install", "download", ":env:")
"""Of pip's configuration, the later before the earlier."""


@dataclass(frozen=True)
class PipConfiguration:
    """What of pip's configuration matters for fetching a file."""

    options: dict[str, str]

    @classmethod
    def read(cls) -> "PipConfiguration":
        """From `pip config list`; where there is no pip, from the environment alone."""
        commands = [[sys.executable, "-I", "-m", "pip"], *([[found]] if (found := shutil.which("pip")) else [])]
        for command in commands:
            done = subprocess.run(
                [*command, "config", "list"], capture_output=True, text=True, check=False, timeout=120
            )
            if done.returncode == 0:
                return cls(_options(done.stdout))
        named = {
            name.removeprefix("PIP_").lower().replace("_", "-"): value
            for name, value in os.environ.items()
            if name.startswith("PIP_")
        }
        return cls({name.removeprefix("default-"): value for name, value in named.items()})

    def _list(self, name: str) -> list[str]:
        return self.options.get(name, "").split()

    @property
    def indexes(self) -> list[str]:
        """Addresses of the indexes, in the order in which they are asked."""
        if self.options.get("no-index", "").lower() in ("1", "true", "yes", "on"):
            return []
        return [self.options.get("index-url", "").strip() or PYPI_SIMPLE_ENDPOINT, *self._list("extra-index-url")]

    @property
    def find_links(self) -> list[str]:
        return self._list("find-links")

    def session(self, retries: int = 0) -> requests.Session:
        """A session with pip's proxy, certificates and time limit."""
        session = _Session(self)
        retry = Retry(retries, backoff_factor=0.5, status_forcelist=(429, 500, 502, 503, 504), raise_on_status=False)
        for scheme in ("https://", "http://"):
            session.mount(scheme, HTTPAdapter(max_retries=retry))
        return session

    def verify(self, url: str) -> bool | str:
        """For requests: a file of certificates, or whether to check them at all."""
        parts = urllib.parse.urlsplit(url)
        if {parts.hostname, parts.netloc.rpartition("@")[2]} & set(self._list("trusted-host")):
            return False
        return self.options.get("cert") or True


class _Session(requests.Session):
    def __init__(self, configuration: PipConfiguration) -> None:
        super().__init__()
        self._configuration = configuration
        if proxy := configuration.options.get("proxy"):
            self.proxies = {"http": proxy, "https": proxy}
        self.cert = configuration.options.get("client-cert")

    def request(self, method: Any, url: Any, *positional: Any, **named: Any) -> requests.Response:
        # Given with the request, since requests lets the environment override a session's own `verify`.
        named["verify"] = self._configuration.verify(str(url))
        if named.get("timeout") is None:
            named["timeout"] = float(self._configuration.options.get("timeout", 60))
        return super().request(method, url, *positional, **named)


def _options(listed: str) -> dict[str, str]:
    """Of lines such as `global.index-url='https://…'`."""
    found: dict[str, dict[str, str]] = {}
    for line in listed.splitlines():
        key, equals, value = line.partition("=")
        section, dot, name = key.rpartition(".")
        if equals and dot and value[:1] in "'\"":
            found.setdefault(section, {})[name.removeprefix("default-")] = str(ast.literal_eval(value))
    return {name: value for section in SECTIONS for name, value in found.get(section, {}).items()}


def fetch_release(release: str, part: Path, expected: Expected, job: Job) -> None:
    """Fill `part` with the release file. Raises DataError that says where it was looked for."""
    configuration = PipConfiguration.read()
    project = project_of(release)
    looked: list[str] = []
    for place in _candidates(release, project, configuration, looked):
        try:
            if isinstance(place, Path):
                with storing(part):
                    shutil.copyfile(place, part)
                if problem := expected.problem(part):
                    part.unlink()
                    raise DataError(f"{place}: {problem}")
            else:
                download([place], part, expected, job, configuration.session())
            return
        except DataError as error:
            looked.append(str(error))
    raise DataError(
        f"{release}: not found on the package index as pip is configured ({'; '.join(looked) or 'no index and no find-links'}). "
        "Check `release` and `sha256`, or point pip to an index that has the file (`pip config set global.index-url …`)"
    )


def project_of(release: str) -> str:
    """Canonical name of the project. Raises DataError for a name that is no release file's."""
    try:
        if release.endswith(".whl"):
            return parse_wheel_filename(release)[0]
        stem = release
        for ending in (".tar.bz2", ".tar.xz", ".tar.zst"):
            stem = stem.replace(ending, ".tar.gz")
        return parse_sdist_filename(stem)[0]
    except (InvalidSdistFilename, InvalidWheelFilename) as error:
        raise DataError(
            f"release {release!r}: no name of a release file ({error}); such a name is 'project-1.0.tar.gz'"
        ) from None


def _candidates(release: str, project: str, configuration: PipConfiguration, looked: list[str]) -> Iterator[Path | str]:
    """Files and addresses that may be the release, the nearest first; what was found instead goes to `looked`."""
    for link in configuration.find_links:
        yield from _linked(release, link, configuration, looked)
    for index in configuration.indexes:
        try:
            page = _project_page(index, project, configuration)
        except NoSuchProjectError:
            looked.append(f"{shown(index)} has no project {project!r}")
            continue
        except (requests.exceptions.RequestException, UnsupportedContentTypeError, OSError) as error:
            status = getattr(getattr(error, "response", None), "status_code", None)
            looked.append(f"{shown(index)}: {f'answers {status}' if status else cause(error)}")
            continue
        names = [package.filename for package in page.packages]
        if release not in names:
            near = difflib.get_close_matches(release, names, n=1)
            looked.append(
                f"{shown(index)} has no such file of {project!r}{f' (did you mean {near[0]!r}?)' if near else ''}"
            )
        for package in page.packages:
            if package.filename == release:
                yield _place(package.url)


def _project_page(index: str, project: str, configuration: PipConfiguration) -> ProjectPage:
    if not index.startswith("file:"):
        return PyPISimple(index, session=configuration.session(retries=3)).get_project_page(project)
    folder = Path(_place(index)) / canonicalize_name(project)
    page = folder / "index.html"
    if not page.is_file():
        raise NoSuchProjectError(project, page.as_uri())
    return ProjectPage.from_html(project, page.read_bytes(), folder.as_uri() + "/")


def _linked(release: str, link: str, configuration: PipConfiguration, looked: list[str]) -> Iterator[Path | str]:
    """The release in a folder of files, or behind a page of links."""
    if link.startswith(("http://", "https://")):
        try:
            response = configuration.session(retries=3).get(link)
            response.raise_for_status()
        except requests.exceptions.RequestException as error:
            looked.append(f"{shown(link)}: {cause(error)}")
            return
        page = RepositoryPage.from_html(response.content, response.url)
        for found in page.links:
            if urllib.parse.unquote(urllib.parse.urlsplit(found.url).path.rpartition("/")[2]) == release:
                yield _place(found.url)
        return
    file = Path(_place(link)).expanduser() / release
    if file.is_file():
        yield file


def _place(address: str) -> Path | str:
    """A path for a `file:` address or a path, else the address without its fragment (which holds a checksum)."""
    address = urllib.parse.urldefrag(address).url
    if address.startswith("file:"):
        return Path(urllib.request.url2pathname(urllib.parse.urlsplit(address).path))
    return address if "://" in address else Path(address)
