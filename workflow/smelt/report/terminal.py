"""The table of an experiment's figures on the terminal, from its `summary.json`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.plan.errors import DataError
from smelt.report.numbers import unit_of, value_of
from smelt.report.scores import named

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


TOLD = ("pretrain", "finetune", "evaluate", "benchmark")
"""Stages whose figures are results; those of data and tokens would push them off the screen."""


def show(summary_path: Path, console: "Console | None" = None) -> None:
    """Print the figures and the path of the page beside them.

    Raises:
        DataError: if there is no summary, or it is not one.
    """
    from rich.console import Console

    console = console or Console()
    summary = _read(summary_path)
    figures = [figure for figure in summary["figures"] if figure["stage"] in TOLD]
    console.print(table({**summary, "figures": figures}))
    if left := len(summary["figures"]) - len(figures):
        console.print(f"and {left} of data, tokens and conversion, in {summary_path.name} and in the report")
    page = summary_path.with_name("report.html")
    if page.exists():
        # Printed bare and whole: a path that is wrapped can't be clicked or copied.
        console.print("report:", end=" ")
        console.out(_short(page), highlight=False)


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such summary; run snakemake to make the experiment first") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DataError(
            f"{path}: not a summary ({error}); delete the report's folder and run snakemake again"
        ) from None
    if not isinstance(found, dict) or not {"experiment", "figures"} <= set(found):
        raise DataError(f"{path}: not a summary of an experiment; delete the report's folder and run snakemake again")
    return found


def table(summary: dict[str, Any]) -> "Table":
    """One row for each figure of a model or of data, and below it its references. Nodes go by stage and label; summary.json has their ids."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    title = f"Figures of {escape(summary['experiment'])}"
    shown = Table(title=title, title_style="bold", title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1))
    shown.add_column("node", overflow="fold")
    shown.add_column("figure", min_width=30)
    shown.add_column("value", justify="right", no_wrap=True)
    before, told = None, set()
    for figure, references in compared(summary["figures"]):
        node = f"{figure['stage']} {figure['node'].rpartition('-')[0] or figure['node']}"
        shown.add_row(*map(escape, ("" if node == before else node, _name(figure), value_of(figure))))
        for other in references:
            # Models of one task share their references, which are told once.
            key = (other["reference"], other["metric"], other["split"], other["value"])
            if key not in told:
                shown.add_row("", escape(f"  {other['reference']}"), escape(value_of(other)), style="dim")
            told.add(key)
        before = node
    return shown


def _name(figure: dict[str, Any]) -> str:
    """The metric, its unit, and the split where it is not the one that results are told of."""
    name = ", ".join(filter(None, [named(figure), unit_of(figure)]))
    return name if figure["split"] in ("test", "") else f"{name} ({figure['split']})"


def compared(figures: list[dict[str, Any]]) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """(figure, the references' figures of the same node, metric and split). A reference without a counterpart stands for itself."""
    found: dict[tuple[str, ...], tuple[dict[str, Any], list[dict[str, Any]]]] = {}
    for figure in sorted(figures, key=lambda figure: bool(figure.get("reference"))):
        key = figure["stage"], figure["node"], named(figure), figure["split"]
        if key in found:
            found[key][1].append(figure)
        else:
            found[key] = figure, []
    order = {(figure["stage"], figure["node"]): place for place, figure in reversed(list(enumerate(figures)))}
    return sorted(found.values(), key=lambda pair: order[pair[0]["stage"], pair[0]["node"]])


def _short(path: Path) -> str:
    """Relative to the working directory where it lies below it."""
    absolute = path.absolute()
    return str(absolute.relative_to(Path.cwd())) if absolute.is_relative_to(Path.cwd()) else str(absolute)
