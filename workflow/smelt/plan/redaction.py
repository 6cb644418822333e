"""What is taken out of text that others get to see: logins and keys in addresses, the home folder, the working folder."""

import re
from pathlib import Path
from typing import Any

REMOVED = "(removed)"
_LOGIN = re.compile(r"(?<=://)[^/@\s\"'<>]*@")
_KEY = re.compile(
    r"([?&;][\w.-]*(?:token|key|secret|signature|password|passwd|credential|sig)=)[^&#;\s\"'<>]+", re.IGNORECASE
)


def public(text: str) -> str:
    """`https://me:secret@host/x?token=abc` → `https://host/x?token=(removed)`."""
    return _KEY.sub(rf"\1{REMOVED}", _LOGIN.sub("", text))


def portable(text: str, folder: Path, home: Path) -> str:
    """`public`, and paths below the working folder become relative to it, those below the home folder to `~`."""
    text = public(text)
    # The longer first: the one may lie within the other.
    for place, short in sorted(((folder, "."), (home, "~")), key=lambda pair: -len(pair[0].parts)):
        if len(place.parts) > 1:  # never for the root of the file system
            text = re.sub(re.escape(str(place)) + r"(?=$|[/\s\"'<>,;:)\]])", short, text)
    return text


def public_values(value: Any) -> Any:
    """`public` on every string of a JSON value."""
    if isinstance(value, str):
        return public(value)
    if isinstance(value, dict):
        return {public_values(key): public_values(item) for key, item in value.items()}
    return [public_values(item) for item in value] if isinstance(value, list) else value
