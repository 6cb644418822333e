"""What is wrong with a block, as a person reads it: pydantic's errors made into key path, value and the nearest valid name."""

import difflib
import re
from collections.abc import Iterable
from typing import Any

from pydantic import TypeAdapter

from smelt.plan.redaction import public
from smelt.plan.yaml_file import Path_

NESTING = ("like", "each", "resources")
"""Keys that any block may have beside its settings."""


_WORDS = {
    "a valid array": "a list",
    "an object": "a mapping (`key: value`)",
    "a valid boolean": "true or false",
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "a valid string": "text",
}
"""pydantic speaks of JSON, the file is YAML."""


def complaint(kind: Any, data: Any, error: Any) -> tuple[Path_, str]:
    """One of pydantic's errors on `data`, a block of `kind`: (key path within the block, what is wrong and what would be right)."""
    path = _within(data, error["loc"], keep_last=error["type"] in ("missing", "extra_forbidden"))
    value, message = error["input"], error["msg"].removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        known = _keys(adapter(kind).json_schema(), path[:-1])
        extra = NESTING if len(path) == 1 else ()
        near = nearest(str(path[-1]), [*known, *extra])
        return path, f"no such key{near or '; the keys are ' + ', '.join(sorted(known))}"
    if error["type"] == "missing":
        about = _about(kind, path)
        return path, f"is missing; add `{path[-1]}:` ({about})" if about else "is missing; add it"
    if error["type"] in ("literal_error", "union_tag_invalid"):
        expected = error["ctx"].get("expected") or error["ctx"].get("expected_tags")
        got = error["ctx"].get("tag", value)
        if "discriminator" in error["ctx"]:
            path = (*path, error["ctx"]["discriminator"].strip("'"))
        near = nearest(str(got), re.findall(r"'([^']*)'", str(expected)))
        return path, f"{shown(got)} is none of {expected}{near}"
    for theirs, ours in _WORDS.items():
        message = message.replace(theirs, ours)
    return path, f"{shown(value)}: {message[0].lower()}{message[1:]}"


def nearest(name: str, known: Iterable[str]) -> str:
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" (did you mean {found[0]!r}?)" if found else ""


def shown(value: Any) -> str:
    text = public(repr(value))
    return text if len(text) <= 60 else text[:57] + "…"


_ADAPTERS: dict[int, TypeAdapter[Any]] = {}


def adapter(kind: Any) -> TypeAdapter[Any]:
    """Made once for each kind: building one takes milliseconds. By identity, since an annotated union has no hash."""
    if id(kind) not in _ADAPTERS:
        _ADAPTERS[id(kind)] = TypeAdapter(kind)
    return _ADAPTERS[id(kind)]


def _within(data: Any, loc: tuple[Any, ...], keep_last: bool) -> Path_:
    """pydantic's location without the tags of unions that it puts between the keys."""
    path: list[str | int] = []
    entered = True
    for position, part in enumerate(loc):
        # On the way into a tagged value the tag comes first; it may be spelt like a key (`kind: url` has a key `url`).
        if entered and isinstance(data, dict) and part in (data.get("kind"), data.get("by")):
            entered = False
            continue
        entered = False
        present = (isinstance(data, dict) and part in data) or (
            isinstance(data, list) and isinstance(part, int) and part < len(data)
        )
        if present:
            data = data[part]
            path.append(part)
            entered = True
        elif keep_last and position == len(loc) - 1:
            path.append(part)
    return tuple(path)


def _keys(schema: dict[str, Any], path: Path_) -> set[str]:
    """The keys that the schema knows at `path`, in any of a union's kinds."""
    found = _parts(schema, schema)
    for step in path:
        deeper = []
        for part in found:
            inner = (
                part.get("items")
                if isinstance(step, int)
                else part.get("properties", {}).get(step, part.get("additionalProperties"))
            )
            if isinstance(inner, dict):
                deeper += _parts(schema, inner)
        found = deeper
    return {key for part in found for key in part.get("properties", {})}


def _parts(schema: dict[str, Any], part: dict[str, Any]) -> list[dict[str, Any]]:
    if "$ref" in part:
        return _parts(schema, schema["$defs"][part["$ref"].rsplit("/", 1)[-1]])
    options = [*part.get("anyOf", []), *part.get("oneOf", []), *part.get("allOf", [])]
    return [deeper for option in options for deeper in _parts(schema, option)] if options else [part]


def _about(kind: Any, path: Path_) -> str:
    """First sentence of the docstring of a key."""
    schema = adapter(kind).json_schema()
    found = _parts(schema, schema)
    for step in path[:-1]:
        found = [
            deeper
            for part in found
            if isinstance(
                inner := part.get("items") if isinstance(step, int) else part.get("properties", {}).get(step), dict
            )
            for deeper in _parts(schema, inner)
        ]
    for part in found:
        if text := part.get("properties", {}).get(path[-1], {}).get("description"):
            return text.split(". ")[0].split(".\n")[0].replace("\n", " ").rstrip(".")
    return ""
