"""What all settings classes share: extra keys are refused, values are not coerced, every field has a docstring."""

import ast
import functools
import inspect
import itertools
import sys
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler


class Settings(BaseModel):
    """A block of settings. The string under a field is its documentation (reference page, schema, annotated YAML)."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    # pydantic's own `use_attribute_docstrings` reads the sources whenever the classes are imported, which is at every start.
    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        found = handler(core_schema)
        properties = handler.resolve_ref_schema(found)["properties"]
        for name, text in descriptions(cls).items():
            properties[name]["description"] = text
        return found


def descriptions(kind: type[Settings]) -> dict[str, str]:
    """Field → the string under it, of a settings class and of those that it extends."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if issubclass(each, Settings) and each is not Settings:
            found |= _strings_under_fields(each)
    return found


def _strings_under_fields(kind: type[Settings]) -> dict[str, str]:
    (definition,) = (
        node for node in _module(kind.__module__).body if isinstance(node, ast.ClassDef) and node.name == kind.__name__
    )
    found = {}
    for field, under in itertools.pairwise(definition.body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(under, ast.Expr):
            found[field.target.id] = inspect.cleandoc(ast.literal_eval(under.value))
    return found


@functools.cache
def _module(name: str) -> ast.Module:
    return ast.parse(inspect.getsource(sys.modules[name]))


def reference(section: str, default: Any = ..., **more: Any) -> Any:
    """A field that holds the name (or a list of names) of a block in `section`; the plan resolves it and reports what is missing."""
    return Field(default, json_schema_extra={"reference": section}, **more)
