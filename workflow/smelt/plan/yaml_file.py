"""YAML as the configuration is written: safe, with the line of every key, numbers as people write them, no key twice."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from smelt.plan.errors import ConfigError


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """The safe loader, with `3e-4` a number as in YAML 1.2 (PyYAML makes it a string), and dates left as text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d[\d_]*)(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)

TOO_DEEP = "nested too deeply; a configuration has a few levels"
TAG = "tag:yaml.org,2002:"
MERGE = f"{TAG}merge"
Path_ = tuple[str | int, ...]
"""A key path: names of keys and positions in lists."""
DEEPEST = 50
MOST_VALUES = 100_000
"""Far above any configuration; an alias counts as all that it stands for, so a few lines could unfold to billions."""


@dataclass(frozen=True)
class YamlFile:
    """One file's data and where each key stands."""

    name: str
    data: dict[str, Any]
    lines: dict[Path_, int]
    """Key path → line, counted from 1."""

    def line(self, path: Path_) -> tuple[int, int]:
        """(how many keys of `path` this file has, the line of the last of them)."""
        depth = len(path)
        while depth and path[:depth] not in self.lines:
            depth -= 1
        return depth, self.lines.get(path[:depth], 1)


def read(path: Path) -> YamlFile:
    """Raises ConfigError naming file and line for what is missing, not UTF-8, not YAML, not a mapping, or has a key twice."""
    name = str(path)
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise ConfigError([f"{name}: no such file; give an existing one with --configfile"]) from None
    except IsADirectoryError:
        raise ConfigError([f"{name}: is a folder; give a YAML file with --configfile"]) from None
    except PermissionError:
        raise ConfigError([f"{name}: may not be read; check its permissions"]) from None
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise ConfigError(
            [f"{name}:{line}: byte {error.object[error.start]:#04x} is not UTF-8; save the file as UTF-8"]
        ) from None
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        lines: dict[Path_, int] = {}
        problems: list[str] = []
        if node is not None:
            _walk(name, node, (), lines, problems, frozenset())
        if problems:
            raise ConfigError(list(dict.fromkeys(problems)))
        data = loader.construct_document(node) if node is not None else {}
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise ConfigError([f"{name}:{line}: not YAML: {error.problem or error.context}; {_hint(text, line)}"]) from None
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise ConfigError(
            [f"{name}:{line}: not YAML: character {error.character!r} is not allowed; take it out"]
        ) from None
    except RecursionError:
        raise ConfigError([f"{name}: is {TOO_DEEP}"]) from None
    except (ValueError, LookupError, AttributeError) as error:  # what the constructors of explicit tags raise
        raise ConfigError([f"{name}: a tag such as `!!int` does not fit its value ({error}); leave it out"]) from None
    finally:
        loader.dispose()
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise ConfigError([f"{name}:1: is {_kind(data)}, not a mapping of sections such as `experiments:`"])
    return YamlFile(name, data, lines)


def _walk(
    name: str, node: Any, path: Path_, lines: dict[Path_, int], problems: list[str], open_nodes: frozenset[int]
) -> None:
    line = node.start_mark.line + 1
    if id(node) in open_nodes:
        raise ConfigError([f"{name}:{line}: {dotted(path)}: an anchor contains itself; write the block out"])
    if len(path) > DEEPEST:
        raise ConfigError([f"{name}:{line}: {path[0]}: is {TOO_DEEP}"])
    if len(lines) >= MOST_VALUES:
        raise ConfigError([f"{name}:{line}: aliases unfold to more than {MOST_VALUES:,} values; write what is meant"])
    lines[path] = line
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            text = key.value if isinstance(key, yaml.ScalarNode) else "?"
            where, line = (*path, text), key.start_mark.line + 1
            if text in seen and key.tag != MERGE:
                problems.append(f"{name}:{line}: {dotted(where)}: stands twice; keep one of them")
            if not _is_text(key):
                problems.append(f"{name}:{line}: {dotted(where)}: YAML reads this key as no text; put it in quotes")
            seen.add(text)
            _walk(name, value, where, lines, problems, open_nodes | {id(node)})
            lines[where] = line
    elif isinstance(node, yaml.SequenceNode):
        for position, value in enumerate(node.value):
            _walk(name, value, (*path, position), lines, problems, open_nodes | {id(node)})


def _is_text(key: Any) -> bool:
    """Whether a key means what it looks like: `no` is read as false, `010` as 8; a plain number is taken for its digits."""
    if not isinstance(key, yaml.ScalarNode):
        return False
    plain_number = key.tag == f"{TAG}int" and re.fullmatch(r"-?(0|[1-9]\d*)", key.value)
    return key.tag in (f"{TAG}str", MERGE) or bool(plain_number)


def dotted(path: Path_) -> str:
    """`("tasks", "a", "sources", 0)` → `tasks.a.sources[0]`."""
    text = ""
    for part in path:
        name = str(part) if str(part).isprintable() else repr(part)
        text += f"[{part}]" if isinstance(part, int) else f".{name}" if text else name
    return text


def _hint(text: str, line: int) -> str:
    lines = text.splitlines()
    shown = lines[line - 1] if line <= len(lines) else ""
    if "\t" in shown:
        return "indent with spaces, not with tabs"
    if "!" in shown:
        return "tags that make objects are not allowed; write plain values"
    return "see whether quotes and brackets are closed and the indentation is even"


def _kind(value: Any) -> str:
    return {list: "a list", str: "text", int: "a number", float: "a number", bool: "true or false"}.get(
        type(value), type(value).__name__
    )
