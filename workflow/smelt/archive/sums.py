"""`SHA256SUMS`: one line a file, as `sha256sum -c` reads it."""

import re

NAME = "SHA256SUMS"
MOST_BYTES = 256 * 2**20
"""A table larger than this is not read: some two million files."""


def table(digests: dict[str, str]) -> str:
    """`digests`: name → hex sha256."""
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items()))


def read(text: str) -> tuple[dict[str, str], list[str]]:
    """Name → hex sha256, and what is wrong with the table."""
    found: dict[str, str] = {}
    problems = []
    for number, line in enumerate(text.splitlines(), 1):
        match = re.fullmatch(r"([0-9a-f]{64})  (.+)", line)
        if match is None:
            problems.append(f"{NAME}, line {number}: not '<sha256>  <name>': {line[:80]!r}")
        elif match[2] in found:
            problems.append(f"{NAME}, line {number}: {match[2]} is listed twice")
        else:
            found[match[2]] = match[1]
    return found, problems
