"""What all settings classes share: extra keys are refused, values are not coerced, every field has a docstring."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Settings(BaseModel):
    """A block of settings. The string under a field is its documentation (reference page, schema, annotated YAML)."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, validate_default=True)


def reference(section: str, default: Any = ..., **more: Any) -> Any:
    """A field that holds the name (or a list of names) of a block in `section`; the plan resolves it and reports what is missing."""
    return Field(default, json_schema_extra={"reference": section}, **more)
