"""Checkouts that a test may edit, real runs in them, and one true quickstart that many tests share."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 900


@dataclass
class Checkout:
    """A copy of the files that git tracks (as they are now), in which snakemake and smelt are called as a person would."""

    path: Path

    @classmethod
    def make(cls, path: Path) -> "Checkout":
        tracked = subprocess.run(
            ["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
            capture_output=True,
            text=True,
            check=True,
        )
        for name in filter(None, tracked.stdout.split("\0")):
            source = ROOT / name
            if source.is_file():
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, path / name)
        return cls(path)

    @property
    def results(self) -> Path:
        return self.path / "results"

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(self.path / "workflow")}

    def snakemake(
        self, *arguments: str, cwd: Path | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """`snakemake --profile profiles/local …`, from the checkout or from `cwd`."""
        profile = str(self.path / "profiles" / "local")
        command = [
            sys.executable,
            "-m",
            "snakemake",
            "-s",
            str(self.path / "Snakefile"),
            "--profile",
            profile,
            *arguments,
        ]
        return self.run(command, cwd, check)

    def smelt(self, *arguments: str, cwd: Path | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.run([sys.executable, "-m", "smelt", *arguments], cwd, check)

    def run(self, command: list[str], cwd: Path | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command, cwd=cwd or self.path, env=self.environment(), capture_output=True, text=True, timeout=SECONDS
        )
        if check:
            assert done.returncode == 0, f"{command}\n{done.stdout[-5000:]}\n{done.stderr[-5000:]}"
        return done

    def would_run(self, *arguments: str, cwd: Path | None = None) -> set[str]:
        """The stages (and `experiment`, the view) of which `snakemake -n` would run any node."""
        return {rule for rule, _ in self.jobs(*arguments, cwd=cwd)}

    def jobs(self, *arguments: str, cwd: Path | None = None) -> set[tuple[str, str]]:
        """(rule, node or experiment) of each job that `snakemake -n` would run."""
        printed = self.snakemake("-n", *arguments, cwd=cwd).stdout
        if "Nothing to be done" in printed:
            return set()
        found = re.findall(
            r"results/(?:experiments/)?([A-Za-z0-9_.-]+)/(?:([A-Za-z0-9_.-]+)/manifest\.json|experiment\.json)",
            _outputs(printed),
        )
        return {(stage, node) if node else ("experiment", stage) for stage, node in found}

    def replace(self, file: str, old: str, new: str) -> None:
        """Edit one place of a file; the place must be there once."""
        path = self.path / file
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{file}: {old!r} stands {text.count(old)} times"
        path.write_text(text.replace(old, new), encoding="utf-8")


def _outputs(printed: str) -> str:
    return "\n".join(line for line in printed.splitlines() if line.strip().startswith("output:"))


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout.make(tmp_path / "checkout")


@dataclass
class Run:
    """A finished run: where, and what was printed."""

    checkout: Checkout
    printed: str
    seconds: float


@pytest.fixture(scope="session")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The quickstart, whole and true, once a session; tests that alter anything work on a copy."""
    import time

    made = Checkout.make(tmp_path_factory.mktemp("quickstart") / "check out")
    started = time.monotonic()
    done = made.snakemake()
    return Run(made, done.stdout + done.stderr, time.monotonic() - started)
