"""Configuration files → checked blocks. All that is wrong is reported at once, each with file, line, key path and way out.

Files are layers: a later one overrides keys of an earlier one. In a block, `like: other` takes another block's keys as
defaults, `each: {key: [values]}` makes one block for every combination, `resources:` says what the nodes need.
"""

import copy
import difflib
import itertools
import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from smelt.plan import yaml_file
from smelt.plan.errors import ConfigError
from smelt.plan.settings.benchmark import Benchmark
from smelt.plan.settings.corpus import Corpus
from smelt.plan.settings.experiment import Experiment, Need
from smelt.plan.settings.finetuning import Finetuning
from smelt.plan.settings.model import Model
from smelt.plan.settings.pretraining import Pretraining
from smelt.plan.settings.task import Task
from smelt.plan.settings.tokenizer import Tokenizer
from smelt.plan.yaml_file import Path_, dotted

SECTIONS: dict[str, Any] = {
    "corpora": Corpus,
    "tokenizers": Tokenizer,
    "models": Model,
    "pretraining": Pretraining,
    "tasks": Task,
    "finetuning": Finetuning,
    "benchmarks": Benchmark,
    "experiments": Experiment,
}
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""Names of blocks become names of folders, in URLs and in shells: plain ASCII without spaces."""
NESTING = ("like", "each", "resources")


@dataclass(frozen=True)
class Block:
    """One named, checked block."""

    section: str
    name: str
    value: Any
    """An instance of the section's settings class."""
    need: Need | None
    """The block's `resources:`; an experiment has its own, by stage, in `value`."""
    origin: str
    """The name under which the file has it (a member of a matrix has a longer name)."""


@dataclass
class Configuration:
    """The blocks of all files, by section and name, and the matrices: name in the file → names of its members."""

    files: list[yaml_file.YamlFile]
    blocks: dict[str, dict[str, Block]] = field(default_factory=lambda: {section: {} for section in SECTIONS})
    members: dict[str, dict[str, list[str]]] = field(default_factory=lambda: {section: {} for section in SECTIONS})

    @classmethod
    def load(cls, paths: Iterable[Path]) -> "Configuration":
        """Raises ConfigError with every problem of every file."""
        problems: list[str] = []
        files = []
        for path in paths:
            try:
                files.append(yaml_file.read(path))
            except ConfigError as error:
                problems += error.problems
        if problems:
            raise ConfigError(problems)
        configuration = cls(files)
        _Loading(configuration).run()
        return configuration

    def where(self, path: Path_) -> str:
        """`file:line: key.path` of the file that has the most of `path` (the last such file, as it overrides)."""
        _, line, name = max(
            ((*file.line(path), file.name) for file in reversed(self.files)),
            key=lambda found: found[0],
            default=(0, 1, "configuration"),
        )
        return f"{name}:{line}: {dotted(path)}"

    def names(self, section: str, name: str) -> list[str]:
        """The blocks that `name` stands for: itself, or the members of a matrix."""
        return self.members[section].get(name, [])


@dataclass
class _Loading:
    """The work of `Configuration.load`: merge, inherit, expand, check, in that order."""

    configuration: Configuration
    problems: list[str] = field(default_factory=list)
    raw: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)

    def run(self) -> None:
        self._merge()
        for section, blocks in self.raw.items():
            for name in blocks:
                inherited = self._inherit(section, name, [])
                if inherited is not None:
                    self._expand(section, name, inherited)
        self._check_references()
        if self.problems:
            raise ConfigError(list(dict.fromkeys(self.problems)))

    def problem(self, path: Path_, text: str) -> None:
        self.problems.append(f"{self.configuration.where(path)}: {text}")

    def _merge(self) -> None:
        merged: dict[str, Any] = {}
        for file in self.configuration.files:
            merged = merge(merged, file.data)
        for section, blocks in merged.items():
            if section not in SECTIONS:
                self.problem(
                    (str(section),),
                    f"no such section{nearest(str(section), SECTIONS)}; the sections are {', '.join(SECTIONS)}",
                )
            elif blocks is None:
                continue
            elif not isinstance(blocks, dict):
                self.problem((section,), f"{shown(blocks)} is not a mapping of named blocks")
            else:
                self.raw[section] = {}
                for name, block in blocks.items():
                    self._take(section, name, block)

    def _take(self, section: str, name: Any, block: Any) -> None:
        path = (section, str(name))
        if not isinstance(name, str) or not NAME.fullmatch(name):
            self.problem(
                path,
                f"{shown(name)} can't be a name (it becomes the name of a folder): begin with a letter or digit, then letters, digits, '_', '-', '.', 64 at most; quote a number",
            )
        elif not isinstance(block, dict):
            self.problem(path, f"{shown(block)} is not a block of settings; write `key: value` lines under the name")
        else:
            self.raw[section][name] = block

    def _inherit(self, section: str, name: str, chain: list[str]) -> dict[str, Any] | None:
        """The block with what it takes from `like`; None after a problem that was reported."""
        block = self.raw[section][name]
        if "like" not in block:
            return block
        other, path = block["like"], (section, name, "like")
        if other in [*chain, name]:
            circle = " → ".join([*chain, name, str(other)])
            self.problem(path, f"goes in a circle: {circle}; take one `like` out")
            return None
        if not isinstance(other, str) or other not in self.raw[section]:
            self.problem(path, f"no block of {section} is named {shown(other)}{nearest(str(other), self.raw[section])}")
            return None
        parent = self._inherit(section, other, [*chain, name])
        if parent is None:
            return None
        return merge(
            {key: value for key, value in parent.items() if key != "like"},
            {key: value for key, value in block.items() if key != "like"},
        )

    def _expand(self, section: str, name: str, block: dict[str, Any]) -> None:
        """Make the block, or the members of its matrix."""
        each = block.get("each")
        plain = {key: value for key, value in block.items() if key != "each"}
        members = self.configuration.members[section].setdefault(name, [])
        if each is None and "each" not in block:
            self._make(section, name, name, plain)
            members.append(name)
            return
        path = (section, name, "each")
        if not isinstance(each, dict) or not each:
            self.problem(path, f"{shown(each)} is not a mapping from keys to lists of values")
            return
        if wrong := [key for key, values in each.items() if not isinstance(values, list) or not values]:
            for key in wrong:
                empty = (
                    "is an empty matrix: it stands for no block at all"
                    if each[key] == []
                    else f"{shown(each[key])} is not a list"
                )
                self.problem((*path, str(key)), f"{empty}; give a list of values")
            return
        for values in itertools.product(*each.values()):
            member_name = "-".join([name, *(_part(str(key), value) for key, value in zip(each, values, strict=True))])
            member = copy.deepcopy(plain)
            for key, value in zip(each, values, strict=True):
                _put(member, str(key).split("."), value)
            if member_name in members or member_name in self.raw[section]:
                self.problem(path, f"makes the name {member_name!r} twice; take the double value out")
                continue
            if not NAME.fullmatch(member_name):
                self.problem(
                    path,
                    f"makes the name {member_name!r}, which is too long or can't name a folder; shorten the block's name",
                )
                continue
            members.append(member_name)
            self._make(section, member_name, name, member)

    def _make(self, section: str, name: str, origin: str, block: dict[str, Any]) -> None:
        need = None
        own = dict(block)
        if section != "experiments" and "resources" in own:
            need = self._validate(Need, own.pop("resources"), (section, origin, "resources"))
        value = self._validate(SECTIONS[section], own, (section, origin))
        if value is not None:
            self.configuration.blocks[section][name] = Block(section, name, value, need, origin)

    def _validate(self, kind: Any, data: Any, path: Path_) -> Any:
        if odd := list(_unstable(data, path)):
            for where, value in odd:
                self.problem(
                    where, f"{shown(value)} has no stable form to compare runs by; write a finite number or text"
                )
            return None
        try:
            return _adapter(kind).validate_json(json.dumps(data), strict=True)
        except ValidationError as error:
            for each in error.errors():
                self._tell(kind, data, path, each)
            return None

    def _tell(self, kind: Any, data: Any, path: Path_, error: Any) -> None:
        """One of pydantic's errors as one line."""
        inner = _within(data, error["loc"], keep_last=error["type"] in ("missing", "extra_forbidden"))
        where, value, message = (*path, *inner), error["input"], error["msg"].removeprefix("Value error, ")
        if error["type"] == "extra_forbidden":
            known = _keys(_adapter(kind).json_schema(), inner[:-1])
            extra = NESTING if len(inner) == 1 else ()
            near = nearest(str(inner[-1]), [*known, *extra])
            self.problem(where, f"no such key{near or '; the keys are ' + ', '.join(sorted(known))}")
        elif error["type"] == "missing":
            self.problem(
                where,
                f"is missing; add `{inner[-1]}:` ({_about(kind, inner)})"
                if _about(kind, inner)
                else "is missing; add it",
            )
        elif error["type"] in ("literal_error", "union_tag_invalid"):
            expected = error["ctx"].get("expected") or error["ctx"].get("expected_tags")
            got = error["ctx"].get("tag", value)
            if "discriminator" in error["ctx"]:
                where = (*where, error["ctx"]["discriminator"].strip("'"))
            near = nearest(str(got), re.findall(r"'([^']*)'", str(expected)))
            self.problem(where, f"{shown(got)} is none of {expected}{near}")
        else:
            self.problem(where, f"{shown(value)}: {message[0].lower()}{message[1:]}")

    def _check_references(self) -> None:
        for section, blocks in self.configuration.blocks.items():
            for block in blocks.values():
                for key, target, names in references(block.value):
                    for name in names:
                        if (
                            name not in self.configuration.members[target]
                            and name not in self.configuration.blocks[target]
                        ):
                            known = [*self.raw.get(target, {}), *self.configuration.blocks[target]]
                            # A block that has problems of its own is there; saying that it is missing would mislead.
                            if name not in known:
                                hint = nearest(name, known) or (
                                    f"; there are {', '.join(known)}" if known else f"; there are no {target} at all"
                                )
                                self.problem(
                                    (section, block.origin, key), f"no block of {target} is named {name!r}{hint}"
                                )


def references(value: BaseModel) -> Iterable[tuple[str, str, list[str]]]:
    """(key, section, names) of each field made by `settings.base.reference`."""
    for key, about in type(value).model_fields.items():
        extra = about.json_schema_extra
        if isinstance(extra, dict) and "reference" in extra:
            given = getattr(value, key)
            yield key, str(extra["reference"]), [given] if isinstance(given, str) else list(given or [])


def merge(under: Any, over: Any) -> Any:
    """Mappings are merged key by key, anything else is replaced."""
    if isinstance(under, dict) and isinstance(over, dict):
        return {**under, **{key: merge(under[key], value) if key in under else value for key, value in over.items()}}
    return over


def nearest(name: str, known: Iterable[str]) -> str:
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" (did you mean {found[0]!r}?)" if found else ""


def shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


_ADAPTERS: dict[int, TypeAdapter[Any]] = {}


def _adapter(kind: Any) -> TypeAdapter[Any]:
    """Made once for each kind: building one takes milliseconds. By identity, since an annotated union has no hash."""
    if id(kind) not in _ADAPTERS:
        _ADAPTERS[id(kind)] = TypeAdapter(kind)
    return _ADAPTERS[id(kind)]


def _part(key: str, value: Any) -> str:
    """What a value adds to the name of a matrix member: text as it is, a number behind its key."""
    text = str(value) if isinstance(value, str) else f"{key.rsplit('.', 1)[-1]}{value}"
    return re.sub(r"[^A-Za-z0-9_.]+", "-", text).strip("-")


def _put(block: dict[str, Any], keys: list[str], value: Any) -> None:
    for key in keys[:-1]:
        block = block.setdefault(key, {})
    block[keys[-1]] = value


def _unstable(data: Any, path: Path_) -> Iterable[tuple[Path_, Any]]:
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _unstable(value, (*path, key if isinstance(key, int) else str(key)))
    elif isinstance(data, list):
        for position, value in enumerate(data):
            yield from _unstable(value, (*path, position))
    elif not (data is None or isinstance(data, str | bool | int) or (isinstance(data, float) and math.isfinite(data))):
        yield path, data


def _within(data: Any, loc: tuple[Any, ...], keep_last: bool) -> Path_:
    """pydantic's location without the tags of unions that it puts between the keys."""
    path: list[str | int] = []
    for position, part in enumerate(loc):
        present = (isinstance(data, dict) and part in data) or (
            isinstance(data, list) and isinstance(part, int) and part < len(data)
        )
        if present:
            data = data[part]
            path.append(part)
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
    schema = _adapter(kind).json_schema()
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
