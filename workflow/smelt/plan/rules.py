"""The names that the rules use: `node`, `spec`, `upstream`, `need`; and what must be so before Snakemake plans."""

import fcntl
import os
import re
import shutil
import socket
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from smelt.plan import records, resources
from smelt.plan.errors import LockedError
from smelt.plan.job import this_process
from smelt.plan.plan import Plan
from smelt.plan.view import View

RESULTS = Path("results")
"""Relative to the working directory, so that a run can be put elsewhere by `--directory`."""
READ_ONLY = {
    "--dry-run", "--dryrun", "--unlock", "--lint", "--list", "--list-rules", "--list-target-rules", "--summary", "--detailed-summary", "-S", "-D",
    "--dag", "--rulegraph", "--filegraph", "--d3dag", "--report", "--print-compilation",
}  # fmt: skip


class Rules:
    """What workflow/Snakefile and the rule files call."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    @classmethod
    def start(cls, configfiles: Iterable[str | Path], source: Path, main_process: bool) -> "Rules":
        """Read the configuration, prepare the environment of the jobs and, in the main process, this folder. Raises SmeltError."""
        prepare_environment(source)
        rules = cls(Plan.load([Path(file) for file in configfiles]))
        if main_process:
            if not _only_looks(sys.argv[1:]):
                hold_folder(Path(".snakemake"))
            records.bring_in_step(rules.plan, RESULTS, Path(".snakemake"))
        return rules

    def node(self, stage: str, file: str) -> str:
        return f"{RESULTS}/{stage}/{{id}}/{file}"

    def spec(self, stage: str) -> Callable[[Any], str]:
        return lambda wildcards: self.plan.node(stage, wildcards.id).spec_text

    def upstream(self, stage: str) -> Callable[[Any], list[str]]:
        """The manifests that a node is made from."""
        return lambda wildcards: [f"{RESULTS}/{ref}/manifest.json" for ref in self.plan.node(stage, wildcards.id).above]

    def need(self, stage: str, what: str) -> Callable[[Any, int], Any]:
        def wanted(wildcards: Any, attempt: int = 1) -> Any:
            return resources.need(self.plan, self.plan.node(stage, wildcards.id), what, attempt)

        return wanted

    def view(self, name: str) -> View:
        return View(self.plan, name, RESULTS)


def prepare_environment(source: Path) -> None:
    """Jobs run the `smelt` beside this interpreter, on the code of this checkout, and end when Snakemake dies."""
    os.environ["PATH"] = _first(str(Path(sys.executable).parent), os.environ.get("PATH", ""))
    os.environ["PYTHONPATH"] = _first(str(source), os.environ.get("PYTHONPATH", ""))
    os.environ["SMELT_WATCH_PARENT"] = this_process()


def _first(folder: str, paths: str) -> str:
    return os.pathsep.join([folder, *(path for path in paths.split(os.pathsep) if path and path != folder)])


def _only_looks(arguments: list[str]) -> bool:
    """Whether this call of snakemake runs no job: `-n` may also stand in a cluster of short options."""
    return any(
        argument.split("=")[0] in READ_ONLY or re.fullmatch(r"-[pqrFkRa]*n[a-zA-Z]*\d*", argument)
        for argument in arguments
    )


_held: list[Any] = []


def hold_folder(folder: Path) -> None:
    """One Snakemake a folder, by a lock that the kernel frees when the holder dies; then what a killed one left is removed.

    Snakemake's own locks stay behind after `kill -9` and ask for `--unlock`. Whoever holds this lock knows that nobody else
    works here, so left-over locks are void. Raises LockedError.
    """
    folder.mkdir(exist_ok=True)
    file = (folder / "smelt.lock").open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read().strip() or "another process"
        file.close()
        raise LockedError(
            f"{folder.absolute().parent}: a snakemake is at work here ({holder}); wait for it, end it, or use another --directory"
        ) from None
    file.truncate(0)
    file.write(f"host {socket.gethostname()}, pid {os.getpid()}")
    file.flush()
    _held.append(file)
    shutil.rmtree(folder / "locks", ignore_errors=True)
