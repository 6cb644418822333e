"""Configuration files → checked blocks. All that is wrong is reported at once, each with file, line, key path and way out.

Files are layers: a later one overrides keys of an earlier one. In a block, `like: other` takes another block's keys as
defaults, `each: {key: [values]}` makes one block for every combination, `resources:` says what the nodes need.
"""

import copy
import itertools
import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from smelt.plan import yaml_file
from smelt.plan.complaint import adapter, complaint, nearest, shown
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
        configuration, problems = cls.look(paths)
        if problems:
            raise ConfigError(problems)
        return configuration

    @classmethod
    def look(cls, paths: Iterable[Path]) -> tuple["Configuration", list[str]]:
        """The blocks that are sound, and every problem of the others."""
        problems: list[str] = []
        files = []
        for path in paths:
            try:
                files.append(yaml_file.read(path))
            except ConfigError as error:
                problems += error.problems
        configuration = cls(files)
        # With a file missing from the layers, what the others lack would be no fault of theirs.
        return configuration, problems or _Loading(configuration).run()

    def where(self, path: Path_) -> str:
        """`file:line: key.path` of the file that has the most of `path` (the last such file, as it overrides)."""
        _, line, name = self._find(path)
        return f"{name}:{line}: {dotted(path)}"

    def depth(self, path: Path_) -> int:
        """How many keys of `path` some file has."""
        return self._find(path)[0]

    def _find(self, path: Path_) -> tuple[int, int, str]:
        return max(
            ((*file.line(path), file.name) for file in reversed(self.files)),
            key=lambda found: found[0],
            default=(0, 1, "configuration"),
        )

    def names(self, section: str, name: str) -> list[str]:
        """The blocks that `name` stands for: itself, or the members of a matrix."""
        return self.members[section].get(name, [])


@dataclass
class _Loading:
    """The work of `Configuration.load`: merge, inherit, expand, check, in that order."""

    configuration: Configuration
    problems: list[str] = field(default_factory=list)
    raw: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    """Section → name → the block as written."""
    whole: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    """(section, name in the file, block) of every block and matrix member, with what it inherits."""

    def run(self) -> list[str]:
        self._merge()
        for section, blocks in self.raw.items():
            for name in blocks:
                inherited = self._inherit(section, name, [])
                if inherited is not None:
                    self._expand(section, name, inherited)
        for section, origin, block in self.whole:
            self._check_references(section, origin, block)
        return list(dict.fromkeys(self.problems))

    def place(self, section: str, origin: str, inner: Path_) -> Path_:
        """Where a key of a block is written: in its matrix, in itself, or in a block that it is like."""
        each = self.raw[section][origin].get("each")
        for length in range(len(inner), 0, -1):
            if isinstance(each, dict) and (key := dotted(inner[:length])) in each:
                return (section, origin, "each", key)
        paths: list[Path_] = []
        name: Any = origin
        while name in self.raw[section]:
            paths.append((section, name, *inner))
            name = self.raw[section][name].get("like")
        return max(paths, key=self.configuration.depth)

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
            if blocked := [key for key, value in zip(each, values) if not _put(member, str(key).split("."), value)]:
                self.problem(
                    (*path, str(blocked[0])), "leads into a key that is no mapping; name a key that can be set"
                )
                return
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
        self.whole.append((section, origin, own))
        if section != "experiments" and "resources" in own:
            need = self._validate(Need, own.pop("resources"), section, origin, ("resources",))
        value = self._validate(SECTIONS[section], own, section, origin)
        if value is not None:
            self.configuration.blocks[section][name] = Block(section, name, value, need, origin)

    def _validate(self, kind: Any, data: Any, section: str, origin: str, within: Path_ = ()) -> Any:
        odd = list(_unstable(data, within))
        for inner, value in odd:
            self.problem(self.place(section, origin, inner), f"{shown(value)} {_NO_STABLE_FORM}")
        if odd:
            return None
        try:
            return adapter(kind).validate_json(json.dumps(data), strict=True)
        except ValidationError as error:
            for each in error.errors():
                inner, text = complaint(kind, data, each)
                self.problem(self.place(section, origin, (*within, *inner)), text)
            return None

    def _check_references(self, section: str, origin: str, block: dict[str, Any]) -> None:
        for key, target, names in references(SECTIONS[section], block):
            # A block that has problems of its own is there; saying that it is missing would mislead.
            known = list(dict.fromkeys([*self.raw.get(target, {}), *self.configuration.blocks[target]]))
            for name in names:
                if name not in known:
                    hint = nearest(name, known) or (
                        f"; there are {', '.join(known)}" if known else f"; there are no {target} at all"
                    )
                    self.problem(
                        self.place(section, origin, (key,)), f"no block of {target} is named {shown(name)}{hint}"
                    )


def references(kind: Any, block: dict[str, Any]) -> Iterable[tuple[str, str, list[str]]]:
    """(key, section, names) of each key of a block that names other blocks (fields made by `settings.base.reference`)."""
    for key, about in getattr(kind, "model_fields", {}).items():
        extra = about.json_schema_extra
        if isinstance(extra, dict) and "reference" in extra:
            given = block.get(key)
            names = given if isinstance(given, list) else [given]
            yield key, str(extra["reference"]), [name for name in names if isinstance(name, str)]


def merge(under: Any, over: Any) -> Any:
    """Mappings are merged key by key, anything else is replaced."""
    if isinstance(under, dict) and isinstance(over, dict):
        return {**under, **{key: merge(under[key], value) if key in under else value for key, value in over.items()}}
    return over


def _part(key: str, value: Any) -> str:
    """What a value adds to the name of a matrix member: text as it is, a number behind its key."""
    text = str(value) if isinstance(value, str) else f"{key.rsplit('.', 1)[-1]}{value}"
    return re.sub(r"[^A-Za-z0-9_.]+", "-", text).strip("-")


def _put(block: Any, keys: list[str], value: Any) -> bool:
    """Set a nested key; False if the way there leads through something that is no mapping."""
    for key in keys[:-1]:
        block = block.setdefault(key, {}) if isinstance(block, dict) else None
    if not isinstance(block, dict):
        return False
    block[keys[-1]] = value
    return True


_NO_STABLE_FORM = "has no stable form to compare runs by; write a finite number or text"


def _unstable(data: Any, path: Path_) -> Iterable[tuple[Path_, Any]]:
    """What JSON can't hold as it is: NaN, infinity, bytes, sets, halves of surrogate pairs."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _unstable(value, (*path, str(key)))
    elif isinstance(data, list):
        for position, value in enumerate(data):
            yield from _unstable(value, (*path, position))
    elif isinstance(data, str):
        if any("\ud800" <= character <= "\udfff" for character in data):
            yield path, data
    elif not (data is None or isinstance(data, bool | int) or (isinstance(data, float) and math.isfinite(data))):
        yield path, data
