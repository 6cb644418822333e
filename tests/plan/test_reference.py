"""smelt.plan.reference: schema, annotated YAML and settings page are those of the settings classes, and usable."""

import json
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from small_plan import small
from smelt import cli
from smelt.plan import reference
from smelt.plan.config import SECTIONS
from smelt.plan.settings.base import descriptions


def test_what_is_committed_is_in_step_with_the_settings_classes():
    assert cli.main(["docs", "--check"]) == 0


def test_a_file_out_of_step_is_told_and_put_right(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(reference, "ROOT", tmp_path)
    assert reference.main(check=True) == 1
    assert "config/schema.json: out of step with the settings classes; run: smelt docs" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
    assert reference.main(check=False) == 0
    assert reference.main(check=True) == 0
    (tmp_path / "docs" / "settings.md").write_text("old")
    assert reference.main(check=True) == 1


def test_the_schema_takes_what_smelt_takes_and_refuses_what_it_refuses():
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(json.dumps(reference.schema()))
    validator = jsonschema.validators.validator_for(schema)
    validator.check_schema(schema)
    check = validator(schema)
    good = small()
    good["pretraining"]["short"] |= {"each": {"seed": [1]}, "resources": {"gpus": 1}}
    good["pretraining"]["long"] = {"like": "short"}
    assert list(check.iter_errors(good)) == []
    for section, name, key, value in [
        ("pretraining", "short", "lerning_rate", 1),
        ("pretraining", "short", "learning_rate", "fast"),
        ("models", "mini", "hidden_size", 0),
        ("corpora", "en", "format", "pdf"),
        ("tasks", "reviews", "kind", "regression"),
        ("tokenizers", "bpe", "each", {"vocab_size": []}),
    ]:
        bad = small()
        bad[section][name][key] = value
        assert list(check.iter_errors(bad)), (section, key)


def models(kind: Any, seen: set[type]) -> set[type]:
    """Every settings class behind an annotation."""
    for part in [kind, *getattr(kind, "__args__", ()), *([kind.__origin__] if hasattr(kind, "__origin__") else [])]:
        if isinstance(part, type) and issubclass(part, BaseModel) and part not in seen:
            seen.add(part)
            for field in part.model_fields.values():
                models(field.annotation, seen)
        elif part is not kind:
            models(part, seen)
    return seen


@pytest.mark.parametrize("section", SECTIONS)
def test_every_setting_says_what_it_does(section):
    for kind in models(SECTIONS[section], set()):
        texts = descriptions(kind)
        for name in kind.model_fields:
            assert texts.get(name, "").endswith((".", "`")), f"{kind.__name__}.{name} has no sentence"


def test_the_settings_page_has_every_key():
    page = reference.settings_page()
    for section, kind in SECTIONS.items():
        assert f"## `{section}:`" in page
        for model in models(kind, set()):
            assert all(f"| `{name}` |" in page for name in model.model_fields)


def test_the_annotated_yaml_holds_the_defaults_that_are_used():
    annotated = yaml.safe_load(reference.annotated())
    assert set(annotated) == set(SECTIONS)
    for section in ("models", "pretraining", "tokenizers", "benchmarks"):
        (block,) = annotated[section].values()
        assert SECTIONS[section].model_validate(block) == SECTIONS[section]()
