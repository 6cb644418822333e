"""Where data comes from: a release file on the package index, an address, or files at hand."""

import codecs
import difflib
import glob
import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, PositiveInt, StringConstraints, field_validator, model_validator

from smelt.plan.errors import DataError
from smelt.plan.redaction import public, secret_in
from smelt.plan.settings.base import Settings

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class _Source(Settings):
    """What all kinds share: which part of the file is meant, how it is encoded, and where it comes from."""

    member: str | list[str] | None = None
    """File inside the archive, by its exact name or as a glob (`texts/*.txt`); a list leads through archives inside archives. Compressed files (gz, bz2, xz, zst) are unpacked by themselves."""
    exclude: list[str] = []
    """Globs of members, or of files in a folder, to leave out."""
    encoding: str = "utf-8"
    """Encoding of the text. It must keep ASCII as it is: `utf-8`, `latin-1`, `gb18030`, `big5`, but not `utf-16`."""
    max_unpacked_bytes: PositiveInt = 32 * 2**30
    """Size that what is unpacked may reach before it is taken for a decompression bomb."""
    licence: str = "not stated"
    """Licence of the data, for the card."""
    provenance: str = ""
    """Where the data was made and what has to be known of it, for the card."""

    @field_validator("encoding")
    @classmethod
    def _encoding_keeps_ascii(cls, value: str) -> str:
        try:
            plain = codecs.lookup(value).encode("\n{'aZ")[0] == b"\n{'aZ"
        except (LookupError, UnicodeError):
            raise ValueError("no encoding of text; name one such as 'utf-8', 'latin-1' or 'gb18030'") from None
        if not plain:
            raise ValueError(
                "does not keep ASCII as it is, so lines can't be found in it; convert the file to UTF-8 first"
            )
        return value

    @field_validator("member")
    @classmethod
    def _member_names_something(cls, value: str | list[str] | None) -> str | list[str] | None:
        if value in ("", []) or (isinstance(value, list) and "" in value):
            raise ValueError("is empty; name the file inside the archive, or leave the key out")
        return value

    @property
    def members(self) -> list[str]:
        """`member` as a list, outermost first; empty for the file itself."""
        return [] if self.member is None else [self.member] if isinstance(self.member, str) else self.member


class PackageSource(_Source):
    """A release file on the package index that pip is configured to use. It is read, never installed; no code of it is run."""

    kind: Literal["package"]
    """A release file on the package index."""
    release: str
    """Name of the file, such as `gensim-4.4.0.tar.gz`; the project follows from it."""
    sha256: Sha256
    """Checksum of the release file."""

    @field_validator("release")
    @classmethod
    def _is_a_file_name(cls, value: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+!-]*\.(whl|zip|tar\.(gz|bz2|xz|zst))", value):
            raise ValueError(
                "no name of a release file; such a name is 'project-1.0.tar.gz' or 'project-1.0-py3-none-any.whl'"
            )
        return value


class UrlSource(_Source):
    """A file at an http or https address, with a checksum so that it can't change unnoticed."""

    kind: Literal["url"]
    """A file at an address."""
    url: str
    """Where the file is. A host that wants a login finds it in `~/.netrc`; an address with a login or a token in it is refused."""
    mirrors: list[str] = []
    """Other addresses of the same file, tried in this order when `url` fails."""
    sha256: Sha256 | None = None
    """Checksum of the file."""
    sha1: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")] | None = None
    """Checksum, where the publisher gives only this one (Wikimedia dumps)."""
    md5: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")] | None = None
    """Checksum, where the publisher gives only this one."""
    size: PositiveInt | None = None
    """Bytes of the file."""

    @field_validator("url", "mirrors")
    @classmethod
    def _is_an_address(cls, value: str | list[str]) -> str | list[str]:
        for url in [value] if isinstance(value, str) else value:
            if not re.match(r"https?://[^/\s]+", url):
                raise ValueError(f"{public(url)!r} is no http or https address; for files at hand use `kind: file`")
            if secret := secret_in(url):
                raise ValueError(
                    f"holds a secret ({secret}), which would stand in manifests and logs: leave it out, and put the host's "
                    "login into ~/.netrc, or fetch the file by hand and use `kind: file`"
                )
        return value

    @model_validator(mode="after")
    def _has_a_checksum(self) -> Self:
        if not self.digests:
            raise ValueError("has no checksum; give sha256, sha1 or md5, since what an address serves may change")
        return self

    @property
    def digests(self) -> dict[str, str]:
        """Algorithm → expected hex digest, the strongest first."""
        found = {"sha256": self.sha256, "sha1": self.sha1, "md5": self.md5}
        return {name: value for name, value in found.items() if value}


class FileSource(_Source):
    """Files at hand: a file, a folder, or a glob."""

    kind: Literal["file"]
    """Files at hand."""
    path: str
    """File, folder (every file below it) or glob (`texts/**/*.txt`), relative to the folder in which the workflow runs. A name that exists is taken as it is, whatever characters it has."""
    sha256: Sha256 | None = None
    """Checksum, if `path` is one file."""

    @field_validator("path")
    @classmethod
    def _names_something(cls, value: str) -> str:
        if not value.strip() or "\0" in value:
            raise ValueError("names no file; give a path or a glob")
        return value

    def files(self, base: Path | None = None) -> list[tuple[str, Path]]:
        """(name relative to what `path` names, file), sorted by name. Raises DataError if there is none."""
        root = (base or Path.cwd()) / Path(self.path).expanduser()
        if root.is_file():
            found = [(root.name, root)]
        elif root.is_dir():
            found = [(path.relative_to(root).as_posix(), path) for path in root.rglob("*") if path.is_file()]
        else:
            fixed = _fixed_part(root)
            found = [
                (Path(path).relative_to(fixed).as_posix(), Path(path))
                for path in glob.glob(str(root), recursive=True)
                if Path(path).is_file()
            ]
        found = sorted((name, path) for name, path in found if not excluded(name, self.exclude))
        if not found:
            raise DataError(
                f"source path {self.path!r}: no such file{_nearest(root)}; paths are relative to {base or Path.cwd()}"
            )
        if self.sha256 and len(found) > 1:
            raise DataError(
                f"source path {self.path!r}: {len(found)} files, so one sha256 can't be right; leave sha256 out or name one file"
            )
        return found


Source = Annotated[PackageSource | UrlSource | FileSource, Field(discriminator="kind")]


def excluded(name: str, patterns: list[str]) -> bool:
    """Whether a name with `/` between its parts is meant by one of the globs; `*` spans `/`."""
    return any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns)


def _fixed_part(pattern: Path) -> Path:
    """The folders of a glob before its first wildcard."""
    fixed = Path(pattern.anchor)
    for part in pattern.relative_to(pattern.anchor).parts[:-1]:
        if glob.has_magic(part):
            break
        fixed /= part
    return fixed


def _nearest(path: Path) -> str:
    folder = path.parent
    while not folder.is_dir():
        folder = folder.parent
    if folder != path.parent:
        return f" (there is no folder {path.parent})"
    near = difflib.get_close_matches(path.name, [each.name for each in folder.iterdir()], n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""
