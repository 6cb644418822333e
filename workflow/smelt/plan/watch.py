"""`smelt watch EXPERIMENT`: a live table of its nodes, from the files that they write; works while the jobs run elsewhere."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smelt.plan.errors import SmeltError
from smelt.plan.plan import Plan, Ref
from smelt.plan.progress import duration

QUIET_SECONDS = 300
"""A node without a manifest whose files were not written for so long counts as stopped: jobs on other machines can't be asked."""


@dataclass(frozen=True)
class Row:
    """One node as it stands."""

    ref: Ref
    state: str
    """`done`, `running`, `stopped` or `waiting`."""
    step: int | None = None
    total: int | None = None
    loss: float | None = None
    tokens_per_second: float | None = None
    seconds_left: float | None = None
    seconds: float | None = None
    """How long a finished node took."""


def rows(plan: Plan, name: str, results: Path, now: float | None = None) -> list[Row]:
    """Raises SmeltError for an experiment that the configuration does not have."""
    if name not in plan.experiments:
        raise SmeltError(
            f"no experiment is named {name!r}; the configuration has {', '.join(plan.experiments) or 'none'}"
        )
    return [_row(ref, results / ref, time.time() if now is None else now) for ref in plan.experiments[name]]


def _row(ref: Ref, folder: Path, now: float) -> Row:
    last = _training_rows(folder / "state" / "metrics.jsonl")
    shown: dict[str, Any] = (
        {key: last[-1].get(key) for key in ("step", "total", "loss", "tokens_per_second")} if last else {}
    )
    if (folder / "manifest.json").exists():
        return Row(ref, "done", **shown, seconds=_seconds(folder / "provenance.json"))
    written = [
        path.stat().st_mtime
        for path in (folder / "log.txt", folder / ".lock", folder / "state" / "metrics.jsonl")
        if path.exists()
    ]
    if not written:
        return Row(ref, "waiting")
    state = "running" if now - max(written) < QUIET_SECONDS else "stopped"
    return Row(ref, state, **shown, seconds_left=_left(last) if state == "running" else None)


def _training_rows(path: Path) -> list[dict[str, Any]]:
    """The last two points of the training curve, without those of the validation between them.

    A line that is being written is left for the next look.
    """
    if not path.exists():
        return []
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 16_384))
        lines = file.read().split(b"\n")[:-1]
    found = []
    for line in lines:
        try:
            found.append(json.loads(line))
        except (json.JSONDecodeError, UnicodeDecodeError):
            continue
    points = {"step", "total", "time", "loss"}
    return [each for each in found if isinstance(each, dict) and points <= set(each)][-2:]


def _left(last: list[dict[str, Any]]) -> float | None:
    if len(last) < 2 or last[-1]["step"] <= last[0]["step"]:
        return None
    pace = (last[-1]["time"] - last[0]["time"]) / (last[-1]["step"] - last[0]["step"])
    return pace * (last[-1]["total"] - last[-1]["step"])


def _seconds(path: Path) -> float | None:
    try:
        return json.loads(path.read_text(encoding="utf-8")).get("seconds")
    except (OSError, ValueError):  # absent, unreadable or being written
        return None


def table(found: list[Row], name: str) -> Any:
    """A rich table."""
    from rich.table import Table

    drawn = Table(title=name, title_justify="left")
    for heading, justify in [
        ("node", "left"),
        ("state", "left"),
        ("step", "right"),
        ("loss", "right"),
        ("tokens/s", "right"),
        ("time left", "right"),
    ]:
        drawn.add_column(heading, justify=justify, overflow="fold")  # type: ignore[arg-type]
    colours = {"done": "green", "running": "yellow", "stopped": "red", "waiting": "dim"}
    for row in found:
        step = f"{row.step:,} of {row.total:,}" if row.step is not None and row.total is not None else ""
        loss = f"{row.loss:.4f}" if row.loss is not None else ""
        rate = f"{row.tokens_per_second:,.0f}" if row.tokens_per_second is not None else ""
        left = (
            f"took {duration(row.seconds)}"
            if row.seconds is not None
            else duration(row.seconds_left)
            if row.seconds_left is not None
            else ""
        )
        drawn.add_row(row.ref, f"[{colours[row.state]}]{row.state}", step, loss, rate, left)
    return drawn


def main(plan: Plan, name: str, results: Path, once: bool, every: float) -> int:
    """Redraw until all is done or Ctrl-C."""
    from rich.console import Console
    from rich.live import Live

    found = rows(plan, name, results)
    if once:
        Console().print(table(found, name))
        return 0
    try:
        with Live(table(found, name), auto_refresh=False) as live:
            while any(row.state != "done" for row in found):
                time.sleep(every)
                found = rows(plan, name, results)
                live.update(table(found, name), refresh=True)
    except KeyboardInterrupt:
        return 0  # the way to leave; the jobs go on
    return 0
