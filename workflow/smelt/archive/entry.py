"""One file of an archive: where its bytes are, and what they must hash to."""

import hashlib
import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from smelt.plan.errors import DataError
from smelt.plan.manifest import Manifest, sha256_file


@dataclass(frozen=True)
class Entry:
    """`source` is a file, read only while it is written, or the bytes of a small one."""

    name: str
    size: int
    sha256: str
    source: Path | bytes
    executable: bool = False

    def __post_init__(self) -> None:
        parts = self.name.split("/")
        if not self.name or re.search(r"[\\\n\r\0]", self.name) or any(part in ("", ".", "..") for part in parts):
            raise DataError(
                f"{self.name!r}: such a name can't be kept in an archive that is safe to unpack; rename the file"
            )

    @classmethod
    def of_text(cls, name: str, text: str) -> "Entry":
        return cls.of_bytes(name, text.encode())

    @classmethod
    def of_bytes(cls, name: str, content: bytes, executable: bool = False) -> "Entry":
        return cls(name, len(content), hashlib.sha256(content).hexdigest(), content, executable)

    @classmethod
    def of_path(cls, name: str, path: Path) -> "Entry":
        return cls(name, path.stat().st_size, sha256_file(path), path)

    @classmethod
    def of_listed(cls, name: str, node: Manifest, file: str) -> "Entry":
        """A file of a node, to be what the node's manifest says it is."""
        about = node.files[file]
        return cls(name, about["size"], about["sha256"], node.file(file))

    def open(self) -> BinaryIO:
        return io.BytesIO(self.source) if isinstance(self.source, bytes) else self.source.open("rb")
