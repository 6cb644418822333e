"""`smelt explain`: what would run, why, what follows from it, and how long that took the last time."""

import json
from pathlib import Path
from typing import Any

from smelt.plan.errors import SmeltError
from smelt.plan.plan import Plan, Ref
from smelt.plan.progress import duration
from smelt.plan.stages import STAGES
from smelt.plan.status import Cause, Status
from smelt.plan.view import View


def explanation(plan: Plan, results: Path, target: str | None = None) -> list[dict[str, Any]]:
    """`[{"stage", "node", "why": [{"key", "old", "new"}], "reaches": [node…], "seconds"}]`, upstream first.

    A node with an empty `why` runs since one above it does. `seconds` is what it took the last time, or null. The views of
    experiments come last, as stage `experiment`. Raises SmeltError for a target that the plan does not have.
    """
    status = Status(plan, results)
    wanted = _wanted(plan, target)
    running = {ref: causes for ref, causes in status.to_run().items() if ref in wanted}
    views = {name: causes for name in plan.experiments if (causes := _view_causes(status, name, running)) is not None}
    found = []
    for ref, causes in running.items():
        stage, _, node = ref.partition("/")
        recorded = status.provenance(ref)
        reaches = [below.partition("/")[2] for below in plan.below({ref}) if below in running]
        why = [{"key": cause.key, "old": cause.old, "new": cause.new} for cause in causes]
        found.append(
            {
                "stage": stage,
                "node": node,
                "why": why,
                "reaches": reaches,
                "seconds": _seconds(recorded),
            }
        )
    for name, causes in views.items():
        if target is None or target in (name, "experiment"):
            why = [{"key": cause.key, "old": cause.old, "new": cause.new} for cause in causes]
            found.append({"stage": "experiment", "node": name, "why": why, "reaches": [], "seconds": None})
    return found


def _seconds(recorded: dict[str, Any] | None) -> float | None:
    seconds = (recorded or {}).get("seconds")
    return seconds if isinstance(seconds, int | float) else None


def _view_causes(status: Status, name: str, running: dict[Ref, list[Cause]]) -> list[Cause] | None:
    """Why the view of an experiment is made again; None if it is current."""
    view = View(status.plan, name, status.results)
    made_of = view.made_of()
    if not view.path.exists():
        return [Cause("experiment.json", None, "not made yet")]
    if made_of.get("spec") != view.spec_text:
        return [Cause("nodes", "as listed", "other nodes")]
    changed = [ref for ref in view.nodes if status.digest(ref) not in (None, made_of.get("inputs", {}).get(ref))]
    if changed:
        return [Cause(f"upstream.{ref}", "as linked", "another content") for ref in changed]
    return [] if any(ref in running for ref in view.nodes) else None


def _wanted(plan: Plan, target: str | None) -> set[Ref]:
    """The nodes that a target means: all, an experiment's, a stage's, or one node's; with those above them."""
    if target is None or target == "experiment":
        return set(plan.nodes)
    if target in plan.experiments:
        return set(plan.experiments[target])
    name = target.removeprefix("results/").removesuffix("/manifest.json")
    chosen = [
        ref for ref in plan.nodes if ref == name or ref.partition("/")[0] == name or ref.partition("/")[2] == name
    ]
    if not chosen:
        raise SmeltError(
            f"{target!r} is no experiment ({', '.join(plan.experiments)}), no stage ({', '.join(STAGES)}) and no node of this configuration"
        )
    found: set[Ref] = set()
    while chosen:
        ref = chosen.pop()
        if ref not in found:
            found.add(ref)
            chosen += plan.nodes[ref].above
    return found


def main(plan: Plan, results: Path, target: str | None, as_json: bool) -> int:
    found = explanation(plan, results, target)
    if as_json:
        print(json.dumps(found, indent=1, ensure_ascii=False))
        return 0
    if not found:
        print("Nothing would run: everything is current.")
        return 0
    stages = {each["node"]: each["stage"] for each in found}
    for each in found:
        if each["why"]:
            took = f", took {duration(each['seconds'])} the last time" if each["seconds"] is not None else ""
            print(f"{each['stage']} {each['node']}{took}")
            for cause in each["why"]:
                print(f"    {Cause(cause['key'], cause['old'], cause['new'])}")
            if each["reaches"]:
                print(f"    and so: {', '.join(f'{stages[node]}/{node}' for node in each['reaches'])}")
    seconds = [each["seconds"] for each in found if each["seconds"] is not None]
    known = (
        f"; the last runs of {len(seconds)} of them took {duration(sum(seconds))} ({sum(seconds) / 3600:.2f} hours)"
        if seconds
        else ""
    )
    print(f"{len(found)} would run{known}.")
    return 0
