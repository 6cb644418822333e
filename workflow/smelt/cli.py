"""The `smelt` command: every stage, and the tools around the workflow. Imports what a subcommand needs only when it runs."""

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from smelt import __version__
from smelt.plan.errors import SmeltError, storage_error

if TYPE_CHECKING:
    from smelt.plan.plan import Plan

RESULTS = Path("results")
STAGES = {
    "corpus": "download, clean, deduplicate and split text",
    "task": "download, deduplicate and split labelled data or dialogue",
    "tokenizer": "train a tokenizer and export it for transformers",
    "shards": "tokenise documents into LMDB shards",
    "pretrain": "train a language model on shards, resumably",
    "convert": "make a Hugging Face directory of the trained weights, and prove that it computes the same",
    "finetune": "train a converted model on a task",
    "evaluate": "measure a model on held-out data, beside honest references",
    "benchmark": "measure speed and memory by precision and method",
    "report": "one HTML page of an experiment's figures",
    "archive": "one verifiable file of an experiment",
}


def _stage_parser(commands: argparse._SubParsersAction, stage: str, about: str) -> None:
    parser = commands.add_parser(
        stage, help=about, description=f"Stage {stage}: {about}. The workflow calls this for each node."
    )
    parser.add_argument(
        "--spec", required=True, help="settings, upstream ids and code digest, as canonical JSON (from the workflow)"
    )
    parser.add_argument(
        "--out", required=True, type=Path, help="the node's manifest: results/<stage>/<id>/manifest.json"
    )
    parser.add_argument("--log", type=Path, help="file for all output but progress and errors")
    parser.add_argument("--threads", type=int, default=1, help="cores granted; changes the speed only")
    parser.add_argument("--gpus", type=int, default=0, help="GPUs granted on this node; 0 runs on the CPU")
    parser.add_argument("--micro-batch", type=int, default=0, help="sequences a device takes at once; 0 chooses")
    parser.add_argument("--zero-stage", type=int, default=0, choices=range(4), help="DeepSpeed ZeRO stage")
    parser.add_argument("--save-minutes", type=float, default=10, help="minutes between checkpoints")
    parser.add_argument(
        "--budget-minutes", type=float, default=0, help="save and leave (exit 75) after so many minutes; 0: no limit"
    )
    parser.set_defaults(call=_run_stage, stage=stage)


def _run_stage(arguments: argparse.Namespace) -> int:
    from smelt.plan.job import execute

    names = ("gpus", "micro_batch", "zero_stage", "save_minutes", "budget_minutes")
    options = {name: getattr(arguments, name) for name in names}
    execute(arguments.stage, arguments.spec, arguments.out, arguments.log, arguments.threads, options)
    return 0


def _configuration(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--configfile",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="as for snakemake: layers, later ones override; default config/config.yaml",
    )
    parser.add_argument(
        "--directory", type=Path, metavar="DIR", help="as for snakemake: where results/ is; default: here"
    )


def _plan(arguments: argparse.Namespace) -> "Plan":
    from smelt.plan.plan import Plan

    _enter(arguments)
    return Plan.load(arguments.configfile or [default_configfile()])


def _enter(arguments: argparse.Namespace) -> None:
    """Files on the command line are relative to where it was typed, all else to --directory (as with snakemake)."""
    if arguments.configfile:
        arguments.configfile = [path.absolute() for path in arguments.configfile]
    if arguments.directory:
        if not arguments.directory.is_dir():
            raise SmeltError(f"--directory {arguments.directory}: no such folder")
        os.chdir(arguments.directory)


def _explain(arguments: argparse.Namespace) -> int:
    from smelt.plan import explain

    return explain.main(_plan(arguments), RESULTS, arguments.target, arguments.json)


def _gc(arguments: argparse.Namespace) -> int:
    from smelt.plan import gc

    _enter(arguments)
    here = default_configfile().parent
    files = [[path] for path in gc.experiment_files(here)] + ([arguments.configfile] if arguments.configfile else [])
    return gc.main(RESULTS, files, arguments.delete)


def _verify(arguments: argparse.Namespace) -> int:
    from smelt.archive import verify

    return verify.main(arguments.path)


def _doctor(_arguments: argparse.Namespace) -> int:
    from smelt.plan import doctor

    return doctor.main()


def _watch(arguments: argparse.Namespace) -> int:
    from smelt.plan import watch

    plan = _plan(arguments)
    name = arguments.experiment or next(iter(plan.experiments), "")
    return watch.main(plan, name, RESULTS, arguments.once, arguments.every)


def _show_plan(arguments: argparse.Namespace) -> int:
    from smelt.plan import resources

    plan = _plan(arguments)
    resources.show(plan, arguments.experiment)
    return 0


def _figures(arguments: argparse.Namespace) -> int:
    from smelt.report import terminal

    _enter(arguments)
    summary = RESULTS / "experiments" / arguments.experiment / "summary.json"
    if not summary.exists():
        raise SmeltError(
            f"{summary}: not there yet; run snakemake first, or name another of {', '.join(_made()) or 'none made yet'}"
        )
    terminal.show(summary)
    return 0


def _made() -> list[str]:
    return sorted(path.parent.name for path in RESULTS.glob("experiments/*/summary.json"))


def _view(arguments: argparse.Namespace) -> int:
    from smelt.plan import view

    view.make(arguments.spec, arguments.out)
    return 0


def _docs(arguments: argparse.Namespace) -> int:
    from smelt.plan import reference

    return reference.main(arguments.check)


def default_configfile() -> Path:
    """The configuration of the working directory, else the one that comes with smelt."""
    here = Path("config/config.yaml")
    shipped = Path(__file__).resolve().parents[2] / "config" / "config.yaml"
    return shipped if not here.exists() and shipped.exists() else here


def _tools(commands: argparse._SubParsersAction) -> None:
    explain = commands.add_parser("explain", help="what would run, why, and what follows from it")
    explain.add_argument("target", nargs="?", help="an experiment, a stage or a node; default: everything")
    explain.add_argument(
        "--json", action="store_true", help='[{"stage", "node", "why": [{"key", "old", "new"}], "reaches": [...]}]'
    )
    explain.set_defaults(call=_explain)
    gc = commands.add_parser("gc", help="nodes that no experiment file reaches; --delete removes them")
    gc.add_argument("--delete", action="store_true", help="remove what is listed")
    gc.set_defaults(call=_gc)
    watch = commands.add_parser("watch", help="a live table of an experiment's nodes: step, loss, tokens/s, time left")
    watch.add_argument("experiment", nargs="?", help="default: the first of the configuration")
    watch.add_argument("--once", action="store_true", help="print once and leave")
    watch.add_argument("--every", type=float, default=2.0, metavar="SECONDS", help="time between looks")
    watch.set_defaults(call=_watch)
    plan = commands.add_parser("plan", help="the nodes and what each asks of the machine")
    plan.add_argument("experiment", nargs="?", help="default: all")
    plan.set_defaults(call=_show_plan)
    figures = commands.add_parser("figures", help="a finished experiment's figures, on the terminal")
    figures.add_argument("experiment")
    figures.set_defaults(call=_figures)
    for parser in (explain, gc, watch, plan, figures):
        _configuration(parser)
    verify = commands.add_parser("verify", help="check an archive, or the files of nodes, against their sha256")
    verify.add_argument(
        "path", nargs="+", type=Path, help="an archive, a node's folder, a manifest or results/experiments/NAME"
    )
    verify.set_defaults(call=_verify)
    doctor = commands.add_parser("doctor", help="what this machine offers and lacks")
    doctor.set_defaults(call=_doctor)
    view = commands.add_parser("view", help="make results/experiments/NAME (the workflow calls this)")
    view.add_argument("--spec", required=True)
    view.add_argument("--out", required=True, type=Path)
    view.set_defaults(call=_view)
    docs = commands.add_parser(
        "docs", help="write config/schema.json, config/reference.yaml and docs/settings.md from the settings classes"
    )
    docs.add_argument("--check", action="store_true", help="only say whether they are in step")
    docs.set_defaults(call=_docs)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="smelt", description="Raw text to evaluated language models: the stages and the tools around the workflow."
    )
    parser.add_argument("--version", action="version", version=f"smelt {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for stage, about in STAGES.items():
        _stage_parser(commands, stage, about)
    _tools(commands)
    arguments = parser.parse_args(argv)
    try:
        code = arguments.call(arguments)
        sys.stdout.flush()
        return code
    except SmeltError as error:
        print(f"smelt: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        # Whoever read our output has seen enough; without this, Python complains once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        told = storage_error(error)
        if told is None:
            raise
        print(f"smelt: {told}", file=sys.stderr)
        return told.exit_code
    except KeyboardInterrupt:
        return 130
