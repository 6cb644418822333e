"""The same experiment in another folder, on other cores, in another environment: the same bytes."""

import json
from pathlib import Path

import pytest

from checkouts import Checkout, Run, finished
from mini_texts import write_texts

CONTENT = ("corpus", "task", "tokenizer", "shards", "pretrain", "convert", "finetune", "evaluate")
"""Stages whose products are content alone. A benchmark, and what shows it, holds what was measured."""

pytestmark = pytest.mark.timeout(3600)
"""The first test of a session makes the mini experiment; on a busy machine that takes long."""


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("elsewhere") / "other place 别处"
    # What a person's environment may hold and results must not follow.
    variables = {"PYTHONHASHSEED": "1", "OMP_NUM_THREADS": "2", "TZ": "Asia/Shanghai", "LC_ALL": "C"}
    made = Checkout(Checkout.make(folder).path, variables)
    write_texts(made.path / "texts")
    return finished(made, *made.mini, "--cores", "1")


@pytest.mark.slow
def test_two_runs_in_other_folders_on_other_cores_give_the_same_manifests(mini: Run, elsewhere: Run) -> None:
    here, there = manifests(mini.checkout.results), manifests(elsewhere.checkout.results)
    assert {name.partition("/")[0] for name in here} == set(CONTENT)
    assert set(here) == set(there)
    for name, text in here.items():
        # The text first: it shows which file or figure differs.
        assert json.loads(there[name]) == json.loads(text), name
        assert there[name] == text, name


@pytest.mark.slow
def test_what_was_timed_lies_in_provenance_and_differs(mini: Run, elsewhere: Run) -> None:
    """Else the comparison above could hold since nothing was run."""
    here, there = (json.loads((run.checkout.node("pretrain/tiny") / "provenance.json").read_text()) for run in (mini, elsewhere))  # fmt: skip
    assert here["started"] != there["started"]
    assert here["threads"] != there["threads"]
    assert here["inputs"] == there["inputs"]


def manifests(results: Path) -> dict[str, bytes]:
    """`stage/node` → bytes of its manifest."""
    found = [path for stage in CONTENT for path in (results / stage).glob("*/manifest.json")]
    return {f"{path.parent.parent.name}/{path.parent.name}": path.read_bytes() for path in found}
