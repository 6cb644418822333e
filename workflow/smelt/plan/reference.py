"""`smelt docs`: config/schema.json, config/reference.yaml and docs/settings.md, written from the settings classes.

The classes in `smelt.plan.settings` are the one source; a test holds the three files in step with them.
"""

import json
import textwrap
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import TypeAdapter
from pydantic_core import PydanticUndefined

from smelt.plan.config import SECTIONS
from smelt.plan.manifest import write_atomically
from smelt.plan.settings.base import Settings, descriptions
from smelt.plan.settings.experiment import Need

ROOT = Path(__file__).resolve().parents[3]
ABOUT = {
    "corpora": "Text: where it comes from, how it is cleaned and split.",
    "tokenizers": "How text becomes tokens.",
    "models": "Networks.",
    "pretraining": "How a network is trained on shards.",
    "tasks": "Labelled data and dialogue.",
    "finetuning": "How a converted model is trained on a task.",
    "benchmarks": "Measurements of speed and memory.",
    "experiments": "Which blocks belong together.",
}
COMMON = {
    "like": {
        "type": "string",
        "description": "Another block of this section, whose keys are the defaults of this one.",
    },
    "each": {
        "type": "object",
        "additionalProperties": {"type": "array", "minItems": 1},
        "description": "A matrix: one block for every combination of the listed values. Keys may be dotted.",
    },
}


def schema() -> dict[str, Any]:
    """JSON schema of a configuration file, for editors. `like` may supply what is required, so nothing is required here."""
    definitions: dict[str, Any] = {}
    properties: dict[str, Any] = {}
    for section, kind in SECTIONS.items():
        block = _section_schema(kind, definitions)
        properties[section] = {"description": ABOUT[section], "type": "object", "additionalProperties": block}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "smelt configuration",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "$defs": dict(sorted(definitions.items())),
    }


def _section_schema(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    found = TypeAdapter(kind).json_schema(ref_template="#/$defs/{model}")
    definitions |= found.pop("$defs", {})
    need = TypeAdapter(Need).json_schema(ref_template="#/$defs/{model}")
    options = (
        [definitions[option["$ref"].rsplit("/", 1)[-1]] for option in found["oneOf"]] if "oneOf" in found else [found]
    )
    blocks = []
    for option in options:
        option = {**option, "properties": {**option["properties"], **COMMON}}
        option["properties"].setdefault(
            "resources", {**need, "description": "What its nodes need of the machine; never part of their identity."}
        )
        option.pop("required", None)
        blocks.append(option)
    return blocks[0] if len(blocks) == 1 else {"anyOf": blocks}


def fields(kind: Any) -> list[tuple[str, list[tuple[str, str, str, str]]]]:
    """For each class behind a section, nested ones after it: (name and docstring, [(key, type, default, text)])."""
    found = TypeAdapter(kind).json_schema()
    definitions = found.get("$defs", {})
    tops = (
        [definitions[option["$ref"].rsplit("/", 1)[-1]] for option in found["oneOf"]] if "oneOf" in found else [found]
    )
    seen: dict[str, dict[str, Any]] = {}
    todo = list(tops)
    while todo:
        part = todo.pop(0)
        if part.get("title") in seen or "properties" not in part:
            continue
        seen[part["title"]] = part
        todo += [definitions[name] for name in _referred(part)]
    result = []
    for title, part in seen.items():
        rows = [
            (
                key,
                _type(about),
                _default(key, about, part.get("required", [])),
                about.get("description", "").replace("\n", " "),
            )
            for key, about in part["properties"].items()
        ]
        result.append((f"{title}: {part.get('description', '')}".replace("\n", " "), rows))
    return result


def _referred(part: Any) -> list[str]:
    if isinstance(part, dict):
        own = [part["$ref"].rsplit("/", 1)[-1]] if "$ref" in part else []
        return own + [name for key, value in part.items() if key != "discriminator" for name in _referred(value)]
    return [name for value in part for name in _referred(value)] if isinstance(part, list) else []


def _type(about: dict[str, Any]) -> str:
    if "$ref" in about:
        return about["$ref"].rsplit("/", 1)[-1]
    if "reference" in about:
        return f"name in `{about['reference']}`" if about.get("type") != "array" else f"names in `{about['reference']}`"
    if "enum" in about or "const" in about:
        return " or ".join(f"`{value}`" for value in about.get("enum", [about.get("const")]))
    for key in ("anyOf", "oneOf", "allOf"):
        if key in about:
            return " or ".join(dict.fromkeys(_type(option) for option in about[key]))
    if about.get("type") == "array":
        return f"list of {_type(about.get('items', {}))}"
    if about.get("type") == "object":
        return "mapping"
    limits = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    bounds = ", ".join(f"{sign} {about[key]}" for key, sign in limits.items() if key in about)
    return " ".join(filter(None, [about.get("type", "any"), bounds]))


def _default(key: str, about: dict[str, Any], required: list[str]) -> str:
    if key in required:
        return "required"
    if "default" not in about:
        return ""
    text = json.dumps(about["default"], ensure_ascii=False)
    return text if len(text) <= 60 else "its own defaults"


def settings_page() -> str:
    """docs/settings.md."""
    lines = [
        "# Settings",
        "",
        "Every key of a configuration file. This page is written by `smelt docs` from the classes in `workflow/smelt/plan/settings/`;",
        "[config/README.md](../config/README.md) says how files, `like:` and `each:` work.",
    ]
    for section, kind in SECTIONS.items():
        lines += ["", f"## `{section}:`", "", ABOUT[section]]
        for title, rows in fields(kind):
            name, _, text = title.partition(": ")
            lines += [
                "",
                f"### {section}: {name}",
                "",
                text,
                "",
                "| key | value | default | what it does |",
                "| --- | --- | --- | --- |",
            ]
            lines += [
                f"| `{key}` | {_cell(kind_)} | {_cell(default)} | {_cell(about)} |"
                for key, kind_, default, about in rows
            ]
    lines += ["", "## `resources:`", "", "In any block, or by stage in an experiment. Never part of a node's identity."]
    lines += ["", "| key | value | what it does |", "| --- | --- | --- |"]
    lines += [f"| `{key}` | {_cell(kind_)} | {_cell(about)} |" for key, kind_, _, about in fields(Need)[0][1]]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def annotated() -> str:
    """config/reference.yaml: a block of each kind with every key, its default and what it does, as YAML to copy from."""
    lines = [
        "# Every key of a configuration with its default, to copy from. Written by `smelt docs` from workflow/smelt/plan/settings/.",
        "# A key that has no default stands behind a # with what it takes.",
    ]
    for section, kind in SECTIONS.items():
        lines += ["", f"# {ABOUT[section]}", f"{section}:"]
        for option in _classes(kind):
            lines += [*_comment(option.__doc__ or "", 2), f"  {option.__name__.lower()}:", *_keys_of(option, 4)]
    return "\n".join(lines) + "\n"


def _keys_of(kind: type[Settings], indent: int) -> list[str]:
    """The keys of a settings class as YAML lines."""
    margin, lines, texts = " " * indent, [], descriptions(kind)
    for key, about in kind.model_fields.items():
        lines += _comment(texts.get(key, ""), indent)
        parts = _classes(about.annotation)
        if isinstance(about.default, Settings):
            lines += [f"{margin}{key}:", *_keys_of(type(about.default), indent + 2)]
        elif parts and about.default in (PydanticUndefined, None):
            opening, closing = "[]" if get_origin(about.annotation) is list else ("", "")
            lines += [f"{margin}# {key}: {opening}{_shape(part)}{closing}" for part in parts]
        elif about.is_required():
            values = _type(TypeAdapter(kind).json_schema()["properties"][key])
            lines.append(f"{margin}# {key}: {values}")
        else:
            lines.append(
                f"{margin}{key}: {json.dumps(dump(about.get_default(call_default_factory=True)), ensure_ascii=False)}"
            )
    return lines


def _shape(kind: type[Settings]) -> str:
    """A block in one line, with the keys that it must have; docs/settings.md has the others."""
    about = TypeAdapter(kind).json_schema()["properties"]
    required = [
        f"{key}: {_type(about[key]).replace('`', '')}"
        for key, field in kind.model_fields.items()
        if field.is_required()
    ]
    return "{" + ", ".join(required) + ", …}"


def dump(value: Any) -> Any:
    return value.model_dump(mode="json") if isinstance(value, Settings) else value


def _classes(kind: Any) -> list[type[Settings]]:
    """The settings classes in an annotation: of a union, of a list's elements."""
    if isinstance(kind, type) and issubclass(kind, Settings):
        return [kind]
    return [found for inner in get_args(kind) for found in _classes(inner)] if get_origin(kind) is not dict else []


def _comment(text: str, indent: int) -> list[str]:
    margin = " " * indent + "# "
    return textwrap.wrap(text, 120, initial_indent=margin, subsequent_indent=margin) if text else []


def files() -> dict[Path, str]:
    return {
        ROOT / "config" / "schema.json": json.dumps(schema(), indent=1, ensure_ascii=False) + "\n",
        ROOT / "config" / "reference.yaml": annotated(),
        ROOT / "docs" / "settings.md": settings_page(),
    }


def main(check: bool) -> int:
    """Write the files, or say which are out of step (exit code 1)."""
    stale = {
        path: text for path, text in files().items() if not path.exists() or path.read_text(encoding="utf-8") != text
    }
    for path, text in stale.items():
        if check:
            print(f"{path.relative_to(ROOT)}: out of step with the settings classes; run: smelt docs")
        else:
            write_atomically(path, text)
            print(f"wrote {path.relative_to(ROOT)}")
    return 1 if check and stale else 0
