"""What an edit runs again: exactly the nodes that depend on it, in `snakemake -n` and in `smelt explain` alike."""

import json
import shutil
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from checkouts import Run
from edits import EDITS, Edit, Place

pytestmark = pytest.mark.timeout(3600)
"""The first test of a session makes the mini experiment; on a busy machine that takes long."""


@dataclass
class Outcome:
    """What would run, as `stage/node`, and what explain said."""

    would_run: set[str]
    explained: list[dict]


def planned(edit: Edit, mini: Run, folder: Path) -> Outcome:
    place = Place(mini.checkout.copy(folder / "checkout"))
    try:
        edit.make(place)
        checkout, cwd = place.checkout, place.cwd
        explained = json.loads(checkout.smelt("explain", "--json", *place.both, cwd=cwd).stdout)
        return Outcome(checkout.would_run(*place.both, *place.arguments, cwd=cwd), explained)
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def outcomes(
    request: pytest.FixtureRequest, mini: Run, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Future[Outcome]]:
    """Of the edits that this session tests, planned two at a time: each costs some seconds of start-up. With pytest-xdist: `--dist loadfile`."""
    chosen = [edit for item in request.session.items if (edit := _edit_of(item))]
    with ThreadPoolExecutor(2) as pool:
        yield {edit.name: pool.submit(planned, edit, mini, tmp_path_factory.mktemp("edit")) for edit in chosen}


def _edit_of(item: pytest.Item) -> Edit | None:
    found = item.callspec.params.get("edit") if hasattr(item, "callspec") else None
    return found if isinstance(found, Edit) else None


@pytest.mark.slow
@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.name.replace(" ", "-"))
def test_an_edit_runs_exactly_what_depends_on_it(edit: Edit, outcomes: dict[str, Future[Outcome]]) -> None:
    outcome = outcomes[edit.name].result()
    explained = {f"{each['stage']}/{each['node']}": each for each in outcome.explained}
    assert {_label(node) for node in outcome.would_run} == edit.runs
    assert set(explained) == outcome.would_run, "explain and snakemake disagree"
    keys = {_label(node): {cause["key"] for cause in each["why"]} for node, each in explained.items()}
    for node, key in edit.causes.items():
        assert key in keys[node], f"{node} runs for {keys[node]}"
    reached = {node for each in explained.values() for node in each["reaches"]}
    unexplained = {each["node"] for each in outcome.explained if not each["why"] and each["stage"] != "experiment"}
    assert unexplained <= reached


def test_the_edit_matrix_covers_every_stage_by_settings_and_by_code() -> None:
    from smelt.plan.plan import STAGES

    named = [(key, node.partition("/")[0]) for edit in EDITS for node, key in edit.causes.items()]
    assert {stage for key, stage in named if key.startswith("settings")} == set(STAGES)
    assert {stage for key, stage in named if key.startswith(f"code.smelt.{stage}.")} == set(STAGES)
    assert len(EDITS) >= 40
    assert len({edit.name for edit in EDITS}) == len(EDITS)


def _label(node: str) -> str:
    """`stage/label-0123456789` → `stage/label`; a view has no digits."""
    return node if node.startswith("experiment/") else node.rpartition("-")[0]
