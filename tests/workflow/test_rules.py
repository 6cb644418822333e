"""The form of the rules and profiles, on which the rerun behaviour and the survival of training state rest."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from checkouts import MINI, ROOT
from mini_texts import write_texts
from smelt.plan.plan import STAGES

# As Snakemake sees them, after all includes.
SHOW = """
import json, sys
from pathlib import Path
from snakemake.api import SnakemakeApi
from snakemake.settings.types import ConfigSettings, OutputSettings, ResourceSettings

with SnakemakeApi(OutputSettings()) as api:
    files = ConfigSettings(configfiles=[Path(sys.argv[2])])
    workflow = api.workflow(ResourceSettings(cores=1), config_settings=files, snakefile=Path(sys.argv[1]))._workflow
    found = {
        rule.name: {
            "output": [str(file) for file in rule.output],
            "params": list(rule.params.keys()),
            "unnamed params": len(rule.params) - len(list(rule.params.keys())),
            "message": rule.message,
            "log": len(rule.log),
            "benchmark": rule.benchmark is not None,
            "resources": sorted(rule.resources),
            "shell": rule.shellcmd,
            "other": [rule.is_run, rule.script, rule.notebook, rule.wrapper, rule.template_engine],
            "retries": rule._restart_times or 0,
            "cache": rule.cache.flag.value,
        }
        for rule in workflow.rules
    }
    Path("rules.json").write_text(json.dumps(found))
"""
PROFILES = sorted(ROOT.glob("profiles/*/*.yaml"))


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("rules")
    write_texts(folder / "texts")
    command = [sys.executable, "-c", SHOW, ROOT / "Snakefile", ROOT / MINI]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads((folder / "rules.json").read_text())


def test_there_is_one_rule_for_each_stage_in_a_file_of_its_name(rules: dict[str, Any]) -> None:
    assert set(rules) == {*STAGES, "all", "experiment"}
    assert {path.stem for path in (ROOT / "workflow" / "rules").iterdir()} == {*STAGES, "experiment"}


@pytest.mark.parametrize("stage", STAGES)
def test_a_rule_declares_its_manifest_and_its_spec_and_nothing_else(stage: str, rules: dict[str, Any]) -> None:
    """A second output would be deleted before each attempt; a second param is compared by Snakemake without its name."""
    rule = rules[stage]
    assert len(rule["output"]) == 1
    assert rule["output"][0].startswith(f"results/{stage}/")
    assert rule["output"][0].endswith("/manifest.json")
    assert rule["params"] == ["spec"]
    assert rule["unnamed params"] == 0


@pytest.mark.parametrize("stage", STAGES)
def test_a_rule_says_what_it_does_logs_and_asks_for_what_it_needs(stage: str, rules: dict[str, Any]) -> None:
    rule = rules[stage]
    assert "{wildcards.id}" in rule["message"]
    assert rule["log"] == 1
    assert rule["benchmark"]
    assert {"mem_mb", "runtime"} <= set(rule["resources"])


def test_only_the_rules_that_gather_what_is_made_have_no_log_and_no_benchmark(rules: dict[str, Any]) -> None:
    """`experiment` sets links in an instant, beside snakemake: its one line of error belongs on the terminal."""
    assert {name for name, rule in rules.items() if not rule["log"]} == {"all", "experiment"}
    assert {name for name, rule in rules.items() if not rule["benchmark"]} == {"all", "experiment"}


@pytest.mark.parametrize("name", [*STAGES, "experiment"])
def test_a_rule_is_one_command_that_takes_the_place_of_its_shell(name: str, rules: dict[str, Any]) -> None:
    """Else a signal ends the shell and leaves the stage alone, and `run:` starts another snakemake for each job."""
    command = {"experiment": "view"}.get(name, name)
    assert rules[name]["shell"].startswith(f"exec smelt {command} --spec {{params.spec:q}} --out {{output")
    assert not any(rules[name]["other"])


@pytest.mark.parametrize("stage", [*STAGES, "experiment"])
def test_a_rule_is_neither_cached_nor_retried(stage: str, rules: dict[str, Any]) -> None:
    """Snakemake's cache ignores wildcards; how often to try is for profiles to say."""
    assert rules[stage]["cache"] == 0
    assert rules[stage]["retries"] == 0


def test_no_profile_is_taken_unasked() -> None:
    """`profiles/default` would override the profile that a person names."""
    assert PROFILES
    assert not (ROOT / "profiles" / "default").exists()


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.parent.name)
def test_a_profile_makes_half_done_nodes_again_and_reruns_for_content_alone(path: Path) -> None:
    profile = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert profile["rerun-incomplete"] is True
    assert set(profile["rerun-triggers"]) == {"mtime", "params", "input"}
    assert not {"keep-incomplete", "touch", "forceall", "ignore-incomplete"} & set(profile)
