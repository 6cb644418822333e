"""What is taken out of text that others get to see: logins and keys in addresses, the home folder, the working folder."""

import re
import urllib.parse
from pathlib import Path
from typing import Any

REMOVED = "(removed)"
_KEYS = r"[\w.-]*(?:token|key|secret|signature|password|passwd|credential|sig)"
"""Names of queries whose values are nobody's business, such as X-Amz-Signature."""
_LOGIN = re.compile(r"(?<=://)[^/@\s\"'<>]*@")
_KEY = re.compile(rf"([?&;]{_KEYS}=)[^&#;\s\"'<>]+", re.IGNORECASE)


def secret_in(url: str) -> str | None:
    """What of an address is a secret, named without its value: its login, or a key of its query; None if nothing is."""
    parts = urllib.parse.urlsplit(url)
    if "@" in parts.netloc:
        return "a login"
    for name in re.findall(r"(?:^|[&;])([^&;=]+)=[^&;]", parts.query):
        plain = urllib.parse.unquote_plus(name)
        if re.fullmatch(_KEYS, plain, re.IGNORECASE):
            return f"{plain!r} in its query"
    return None


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
