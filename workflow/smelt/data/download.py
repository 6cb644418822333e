"""One file over HTTP: from the first address that gives it, gone on with after a break, tried again when the server is busy.

Nothing of an address but its host and path is ever printed: user names, passwords and tokens stand elsewhere in it.
"""

import contextlib
import email.utils
import time
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import requests
import urllib3

from smelt.data.cache import Expected
from smelt.data.storage import storing
from smelt.plan.errors import DataError
from smelt.plan.job import Job
from smelt.plan.progress import Progress

CHUNK = 1 << 20
TRIED_AGAIN = (408, 425, 429, 500, 502, 503, 504)
"""Statuses of a server that may answer later."""
WORTH_A_LINE = 8 << 20
"""Bytes from which a download shows its progress."""


@dataclass(frozen=True)
class Patience:
    """How long a server is given."""

    attempts: int = 6
    """Attempts in a row that bring nothing."""
    first_wait: float = 1.0
    """Seconds before the second attempt; twice as long before each further one."""
    longest_wait: float = 120.0
    """Seconds; a server that asks for more (Retry-After) is given up."""
    connect: float = 20.0
    """Seconds for a connection."""
    silence: float = 60.0
    """Seconds without a byte."""


class _GivenUp(Exception):
    """This address doesn't give the file."""


class _Later(Exception):
    """This address may give the file at another attempt."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


def download(
    urls: list[str],
    part: Path,
    expected: Expected,
    job: Job,
    session: requests.Session | None = None,
    patience: Patience | None = None,
) -> None:
    """Fill `part` with what is expected. Raises DataError that says for each address what went wrong."""
    session = session or requests.Session()
    failures = []
    for url in urls:
        try:
            _from_one(url, part, expected, job, session, patience or Patience())
            return
        except _GivenUp as failure:
            failures.append(f"{shown(url)}: {failure}")
    where = "its address" if len(urls) == 1 else f"any of its {len(urls)} addresses"
    raise DataError(
        f"can't be fetched from {where}: {'; '.join(failures)}. Check the address and the checksum, or add a mirror"
    )


def shown(url: str) -> str:
    """An address without user, password and query."""
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _from_one(
    url: str, part: Path, expected: Expected, job: Job, session: requests.Session, patience: Patience
) -> None:
    attempt = 0
    while True:
        before = _size(part)
        try:
            _transfer(url, part, expected, job, session, patience)
        except _Later as failure:
            # Bytes that came count for the server: a long download over a bad line goes on as long as it gets anywhere.
            attempt = 1 if _size(part) > before else attempt + 1
            wait = patience.first_wait * 2 ** (attempt - 1) if failure.wait is None else failure.wait
            if attempt >= patience.attempts or wait > patience.longest_wait:
                raise _GivenUp(
                    f"{failure} (given up after {attempt} attempts)" if attempt > 1 else str(failure)
                ) from None
            job.say(f"{shown(url)}: {failure}; trying again in {wait:g} s")
            time.sleep(wait)
            continue
        problem = expected.problem(part)
        if problem is None:
            return
        part.unlink()
        if not before:
            raise _GivenUp(problem)
        job.say(f"{shown(url)}: what was gone on with {problem}; starting over")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _transfer(
    url: str, part: Path, expected: Expected, job: Job, session: requests.Session, patience: Patience
) -> None:
    """One request; what it brings is added to `part`."""
    have = _size(part)
    if expected.size is not None and have >= expected.size:
        return
    # A server that compresses on the way would give other bytes than those that the checksum is of.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with (
        _telling(patience),
        session.get(url, headers=headers, stream=True, timeout=(patience.connect, patience.silence)) as response,
    ):
        have = _continued(response, part, have)
        length = response.headers.get("Content-Length", "")
        total = have + int(length) if length.isdigit() else None
        if expected.size is not None and total not in (None, expected.size):
            raise _GivenUp(f"has {total:,} bytes, the settings say size={expected.size:,}")
        with _progress(job, total, have) as progress, storing(part), part.open("ab" if have else "wb") as file:
            while piece := response.raw.read(CHUNK, decode_content=False):
                file.write(piece)
                have += len(piece)
                if expected.size is not None and have > expected.size:
                    raise _GivenUp(f"sends more than the size={expected.size:,} bytes of the settings")
                if progress:
                    progress.update(len(piece))


def _continued(response: requests.Response, part: Path, have: int) -> int:
    """From which byte on the response goes: `have`, or 0 if the server starts over. Raises for every status but success."""
    status = response.status_code
    told = f"{status} {response.reason or ''}".strip()
    if status == 416:
        part.unlink(missing_ok=True)
        raise _Later("the server has less than was fetched before; starting over", wait=0)
    if status in TRIED_AGAIN:
        raise _Later(told, _retry_after(response.headers.get("Retry-After")))
    if status not in (200, 206):
        raise _GivenUp(told)
    if status == 200:
        return 0
    if not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
        part.unlink(missing_ok=True)
        raise _Later("the server sent another part than it was asked for; starting over", wait=0)
    return have


def _retry_after(value: str | None) -> float | None:
    """Seconds to wait, from a number or a date; None if there is neither."""
    if value is None:
        return None
    if value.strip().isdigit():
        return float(value)
    with contextlib.suppress(ValueError):
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    return None


@contextlib.contextmanager
def _telling(patience: Patience) -> Iterator[None]:
    """What the network does wrong, in words without the address, which may hold a token."""
    try:
        yield
    except requests.exceptions.TooManyRedirects:
        raise _GivenUp("redirects in a circle") from None
    except (requests.exceptions.InvalidURL, requests.exceptions.InvalidSchema, requests.exceptions.MissingSchema):
        raise _GivenUp("is or redirects to no http or https address") from None
    except requests.exceptions.SSLError:
        raise _GivenUp(
            "its certificate is not accepted; name your authority's file in REQUESTS_CA_BUNDLE or in pip's `cert`"
        ) from None
    except requests.exceptions.Timeout:
        raise _Later(f"no answer within {patience.connect:g} s, or silence of {patience.silence:g} s") from None
    except urllib3.exceptions.ProtocolError:
        raise _Later("broke off before its end") from None
    except (requests.exceptions.RequestException, urllib3.exceptions.HTTPError) as error:
        raise _Later(cause(error)) from None


def cause(error: BaseException) -> str:
    """The operating system's word for it, or the kind of the innermost error."""
    chain, seen = [error], set()
    found: BaseException = error
    while chain:
        each = chain.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, OSError) and each.strerror:
            return f"no connection ({each.strerror})"
        found = each
        inner = [each.__cause__, each.__context__, getattr(each, "reason", None), *each.args]
        chain += [one for one in inner if isinstance(one, BaseException)]
    return f"no connection ({type(found).__name__})"


def _progress(job: Job, total: int | None, have: int) -> contextlib.AbstractContextManager[Progress | None]:
    if total is None or total - have < WORTH_A_LINE:
        return contextlib.nullcontext()
    return Progress(job, total, "bytes", have)
