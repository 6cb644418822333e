"""The names that the rules use: `node`, `spec`, `upstream`, `need`; and what must be so before Snakemake plans."""

import fcntl
import os
import re
import shutil
import socket
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from smelt.plan import identity, records, resources
from smelt.plan.complaint import nearest
from smelt.plan.errors import LockedError, SmeltError, storage_error
from smelt.plan.job import this_process
from smelt.plan.plan import Node, Plan
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
    def start(
        cls, configfiles: Iterable[str | Path], overrides: Mapping[str, Any], source: Path, main_process: bool
    ) -> "Rules":
        """Read the configuration, prepare the environment of the jobs and, in the main process, this folder. Raises SmeltError."""
        if overrides:
            given = " ".join(f"{key}={value}" for key, value in overrides.items())
            raise SmeltError(
                f"--config {given}: settings come from files, where they keep their types and stay on record; "
                "write a small YAML file that overrides these keys and give it as the last --configfile"
            )
        prepare_environment(source)
        rules = cls(Plan.load([Path(file) for file in configfiles]))
        for planned in rules.plan.nodes.values():
            # Here, where an error is one line; in an input function Snakemake would show a traceback.
            _ = planned.spec_text
        if main_process:
            looks = _only_looks(sys.argv[1:])
            check_folder(RESULTS, writing=not looks)
            try:
                if not looks:
                    hold_folder(Path(".snakemake"))
                records.bring_in_step(rules.plan, RESULTS, Path(".snakemake"))
                identity.remember()
            except OSError as error:
                if told := storage_error(error):
                    raise told from None
                raise
        return rules

    def node(self, stage: str, file: str) -> str:
        return f"{RESULTS}/{stage}/{{id}}/{file}"

    def spec(self, stage: str) -> Callable[[Any], str]:
        return lambda wildcards: self._node(stage, wildcards.id).spec_text

    def upstream(self, stage: str) -> Callable[[Any], list[str]]:
        """The manifests that a node is made from."""
        return lambda wildcards: [f"{RESULTS}/{ref}/manifest.json" for ref in self._node(stage, wildcards.id).above]

    def need(self, stage: str, what: str) -> Callable[[Any, int], Any]:
        def wanted(wildcards: Any, attempt: int = 1) -> Any:
            return resources.need(self.plan, self._node(stage, wildcards.id), what, attempt)

        return wanted

    def view(self, name: str) -> View:
        """Ends Snakemake for an experiment that the configuration does not have."""
        if name not in self.plan.experiments:
            # Snakemake would show an exception of an input function with a traceback.
            sys.exit(
                f"smelt: no experiment is named {name!r}{nearest(name, self.plan.experiments)}; "
                f"the configuration has {', '.join(self.plan.experiments)}"
            )
        return View(self.plan, name, RESULTS)

    def _node(self, stage: str, id: str) -> Node:
        """Ends Snakemake for a node that no experiment of the configuration has."""
        try:
            return self.plan.node(stage, id)
        except KeyError:
            sys.exit(
                f"smelt: {RESULTS}/{stage}/{id}: no experiment of the configuration has this node; `smelt plan` lists them"
            )


def check_folder(results: Path, writing: bool) -> None:
    """Raises SmeltError if results can't go there."""
    if results.exists() and not results.is_dir():
        raise SmeltError(
            f"{results.absolute()}: is a file, but a folder of this name is wanted; move it away, or use another --directory"
        )
    place = results if results.exists() else results.absolute().parent
    if writing and not os.access(place, os.W_OK | os.X_OK):
        raise SmeltError(
            f"{place.absolute()}: can't be written; mend its permissions or mount, or use another --directory"
        )


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
        argument.split("=")[0] in READ_ONLY or re.fullmatch(r"-[pFfketi]*n[a-zA-Z]*\d*", argument)
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
