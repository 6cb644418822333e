"""What the tests share: a results folder in which single stages can be run as the workflow runs them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from smelt.plan.identity import code_digest
from smelt.plan.job import execute
from smelt.plan.manifest import FORMAT, Manifest, canonical, sha256_text
from smelt.training.compute import work_alone

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


class Results:
    """`run("tokenizer", "en", settings, corpus=corpus_manifest)` makes one node in `root` and returns its manifest."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def spec(self, stage: str, settings: dict[str, Any], upstream: dict[str, Any]) -> dict[str, Any]:
        def ref(manifest: Manifest) -> str:
            return f"{manifest.stage}/{manifest.id}"

        refs = {
            role: [ref(m) for m in given] if isinstance(given, list) else ref(given) for role, given in upstream.items()
        }
        return {"format": FORMAT, "stage": stage, "settings": settings, "upstream": refs, "code": code_digest(stage)}

    def path(self, stage: str, label: str, settings: dict[str, Any], **upstream: Any) -> Path:
        spec = self.spec(stage, settings, upstream)
        identity = sha256_text(canonical([stage, settings, spec["upstream"]]))[:10]
        return self.root / stage / f"{label}-{identity}" / "manifest.json"

    def run(
        self, stage: str, label: str, settings: Any, options: dict[str, Any] | None = None, **upstream: Any
    ) -> Manifest:
        if hasattr(settings, "model_dump"):
            settings = settings.model_dump(mode="json")
        settings = json.loads(canonical(settings))
        out = self.path(stage, label, settings, **upstream)
        execute(stage, canonical(self.spec(stage, settings, upstream)), out, options=options)
        return Manifest.read(out)


@pytest.fixture(autouse=True)
def alone_again() -> Iterator[None]:
    """A stage that ran in this process leaves its rank in the environment, which commands of later tests would inherit."""
    yield
    work_alone()


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return Results(tmp_path / "results")


@pytest.fixture(scope="session")
def session_results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """For nodes that many tests read and none alters."""
    return Results(tmp_path_factory.mktemp("session") / "results")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real fixtures beside the checkout; tests that need it skip where it is absent."""
    if not SHARED.is_dir():
        pytest.skip(f"the fixtures at {SHARED} are not here")
    return SHARED
