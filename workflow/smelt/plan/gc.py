"""`smelt gc`: nodes that no experiment file reaches any more, with their size; `--delete` removes them."""

import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from smelt.plan import view
from smelt.plan.errors import LockedError, SmeltError
from smelt.plan.job import lock
from smelt.plan.plan import Plan
from smelt.plan.stages import STAGES


def unreached(results: Path, plans: Iterable[Plan]) -> list[Path]:
    """Folders under `results` of experiments and nodes that are in none of the plans, and state that was moved aside in those that are."""
    plans = list(plans)
    reached = {ref for plan in plans for ref in plan.nodes}
    named = {name for plan in plans for name in plan.experiments}
    # Views are links and a small file; one whose experiment is gone would point at nothing.
    found = sorted(
        path.parent for path in results.glob("experiments/*/experiment.json") if path.parent.name not in named
    )
    for stage in STAGES:
        for folder in sorted(path for path in (results / stage).glob("*") if path.is_dir()):
            if f"{stage}/{folder.name}" in reached:
                found += sorted(folder.glob("state.stale-*"))
            else:
                found.append(folder)
    return found


def experiment_files(folder: Path) -> list[Path]:
    """The files that count as experiment files of a configuration folder."""
    found = [path for ending in ("yaml", "yml") for path in folder.glob(f"experiments/*.{ending}")]
    return sorted(path for path in [folder / "config.yaml", *found] if path.exists())


def size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())


def main(results: Path, files: list[list[Path]], delete: bool) -> int:
    """`files`: the configurations, each a list of layers. Raises SmeltError before anything is removed if one can't be read or there is none."""
    if not files:
        raise SmeltError(
            "no experiment file is here, so every node would count as unreached; name one with --configfile"
        )
    plans = [Plan.load(layers) for layers in files]
    found = unreached(results, plans)
    print(f"Experiment files: {', '.join(str(path) for layers in files for path in layers)}")
    if not found:
        print(f"{results}: every node is reached by an experiment.")
        return 0
    total = 0
    failed = 0
    for folder in found:
        bytes_ = size(folder)
        total += bytes_
        if delete:
            try:
                _remove(folder)
            except LockedError as error:
                print(f"smelt: kept: {error}", file=sys.stderr)
                failed += 1
                continue
        print(f"{'removed' if delete else 'unreached'}  {megabytes(bytes_):>10}  {folder}")
    print(f"{len(found)} folders, {megabytes(total)}." + ("" if delete else " `smelt gc --delete` removes them."))
    return 1 if failed else 0


def _remove(folder: Path) -> None:
    """Raises LockedError for a node that is in use."""
    if folder.parent.name == "experiments":
        view.remove(folder)
        return
    node = folder.parent if folder.name.startswith("state.stale-") else folder
    with lock(node / ".lock", wait=0):
        shutil.rmtree(folder)


def megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"
