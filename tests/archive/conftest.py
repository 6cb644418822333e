"""An experiment that is written by hand, its report, and a small checkout to archive the code of."""

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from made_experiment import Made, make_experiment
from smelt.plan.manifest import Manifest

CONFIGURATION = {"corpora": {"wiki": {"sources": []}}, "experiments": {"quickstart": {"corpus": "wiki"}}}


def run_git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "core.hooksPath=/dev/null"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path) -> Path:
    """A git checkout with what a checkout may hold, and what must stay out."""
    root = tmp_path / "checkout"
    (root / "workflow" / "smelt").mkdir(parents=True)
    (root / "envs").mkdir()
    (root / "envs" / "requirements.txt").write_text("torch==2.13.0\n")
    (root / "workflow" / "smelt" / "a.py").write_text("committed\n")
    (root / "workflow" / "gone.py").write_text("gone\n")
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "名 前.txt").write_text("name\n")
    (root / "run.sh").chmod(0o755)
    (root / "link.py").symlink_to("workflow/smelt/a.py")
    (root / "outside").symlink_to(tmp_path / "elsewhere.txt")
    (root / "folder").symlink_to("workflow")
    (tmp_path / "elsewhere.txt").write_text("not ours\n")
    (root / ".gitignore").write_text(".env\n")
    run_git(root, "init", "-q")
    run_git(root, "add", "-A")
    run_git(root, "commit", "-qm", "first")
    (root / "workflow" / "smelt" / "a.py").write_text("edited since\n")
    (root / "workflow" / "gone.py").unlink()
    (root / "untracked.py").write_text("untracked\n")
    (root / "workflow" / "smelt" / "new.py").write_text("not added yet\n")
    (root / "workflow" / "smelt" / ".env").write_text("TOKEN=secret\n")
    (root / ".env").write_text("TOKEN=secret\n")
    return root


class Archived:
    """Archives of one experiment, each made by the stage as the workflow runs it."""

    def __init__(self, results) -> None:
        self.results = results
        self.made: Made = make_experiment(results.root)
        report = {"experiment": "quickstart", "report": {}}
        self.report = results.run("report", "quickstart", report, nodes=list(self.made.nodes.values()))

    def run(self, root: Path | None = None, **settings) -> Manifest:
        """`root`: a copy of the results to work in."""
        root = root or self.results.root
        self.results.root = root
        nodes = [Manifest.read(root / m.stage / m.id / "manifest.json") for m in self.made.nodes.values()]
        report = Manifest.read(root / "report" / self.report.id / "manifest.json")
        given = {"experiment": "quickstart", "archive": settings, "configuration": CONFIGURATION}
        return self.results.run("archive", "quickstart", given, report=report, nodes=nodes)

    def copied(self, root: Path, seed: int) -> Path:
        """The results in another folder, their files written in another order."""
        files = [path for path in sorted(self.results.root.rglob("*")) if path.is_file()]
        random.Random(seed).shuffle(files)
        for file in files:
            target = root / file.relative_to(self.results.root)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
        return root


@pytest.fixture
def archived(results, checkout, monkeypatch) -> Archived:
    monkeypatch.setattr("smelt.archive.stage.ROOT", checkout)
    return Archived(results)


@pytest.fixture
def packed(archived) -> Path:
    return archived.run().file("quickstart.tar.zst")
