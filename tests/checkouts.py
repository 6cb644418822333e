"""Checkouts that a test may edit, in which snakemake and smelt are called as a person would."""

import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 1800
"""Longest run that a test waits for."""
MINI = Path("tests") / "workflow" / "mini.yaml"


@dataclass
class Checkout:
    """A copy of the files that git tracks (as they are now), in which snakemake and smelt are called as a person would."""

    path: Path
    variables: dict[str, str] = field(default_factory=dict)
    """Of the environment in which commands run, beside those that are there."""

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

    def copy(self, path: Path) -> "Checkout":
        """Everything again elsewhere: sources, results, `.snakemake`, times."""
        shutil.copytree(self.path, path, symlinks=True)
        return Checkout(path)

    @property
    def results(self) -> Path:
        return self.path / "results"

    @property
    def mini(self) -> list[str]:
        """Arguments by which snakemake and smelt take the mini experiment."""
        return ["--configfile", str(self.path / MINI)]

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(self.path / "workflow"), **self.variables}

    def command(self, *arguments: str, profile: str = "local") -> list[str]:
        """`snakemake --profile profiles/PROFILE …`"""
        given = ["-s", str(self.path / "Snakefile"), "--profile", str(self.path / "profiles" / profile)]
        return [sys.executable, "-m", "snakemake", *given, *arguments]

    def snakemake(
        self, *arguments: str, cwd: Path | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        return self.run(self.command(*arguments), cwd, check)

    def start(self, *arguments: str, profile: str = "local") -> subprocess.Popen[bytes]:
        """A snakemake in the background, in a process group of its own; what it prints goes to `printed.txt`."""
        with (self.path / "printed.txt").open("ab") as file:
            return subprocess.Popen(
                self.command(*arguments, profile=profile),
                cwd=self.path,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def smelt(self, *arguments: str, cwd: Path | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.run([sys.executable, "-m", "smelt", *arguments], cwd, check)

    def run(self, command: list[str], cwd: Path | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command, cwd=cwd or self.path, env=self.environment(), capture_output=True, text=True, timeout=SECONDS
        )
        if check:
            assert done.returncode == 0, f"{command}\n{done.stdout[-5000:]}\n{done.stderr[-5000:]}"
        return done

    def node(self, name: str) -> Path:
        """The folder of the node `stage/label`; there must be one."""
        stage, _, label = name.partition("/")
        found = [path for path in self.results.glob(f"{stage}/{label}-*") if path.name.rpartition("-")[0] == label]
        assert len(found) == 1, f"{name}: {found}"
        return found[0]

    def would_run(self, *arguments: str, cwd: Path | None = None) -> set[str]:
        """`stage/node`, or `experiment/name` for a view, of each job that `snakemake -n` would run."""
        printed = self.snakemake("-n", "-p", *arguments, cwd=cwd).stdout
        nodes = re.findall(r"--out results/([a-z]+/[A-Za-z0-9_.-]+)/manifest\.json", printed)
        views = re.findall(r"--out results/experiments/([A-Za-z0-9_.-]+)/experiment\.json", printed)
        found = {*nodes, *(f"experiment/{name}" for name in views)}
        assert bool(found) != ("Nothing to be done" in printed), printed
        return found

    def replace(self, file: str, old: str, new: str) -> None:
        """Edit one place of a file; the place must be there once."""
        path = self.path / file
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{file}: {old!r} stands {text.count(old)} times"
        path.write_text(text.replace(old, new), encoding="utf-8")


@dataclass
class Run:
    """A finished run: where, and what was printed."""

    checkout: Checkout
    printed: str
    seconds: float


def finished(checkout: Checkout, *arguments: str) -> Run:
    """A run of snakemake that must succeed."""
    started = time.monotonic()
    done = checkout.snakemake(*arguments)
    return Run(checkout, done.stdout + done.stderr, time.monotonic() - started)
