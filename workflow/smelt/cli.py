"""The `smelt` command: every stage, and the tools around the workflow. Imports what a subcommand needs only when it runs."""

import argparse
import sys
from pathlib import Path

from smelt import __version__
from smelt.plan.errors import SmeltError

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
    parser = commands.add_parser(stage, help=about, description=f"Stage {stage}: {about}. The workflow calls this for each node.")
    parser.add_argument("--spec", required=True, help="settings, upstream ids and code digest, as canonical JSON (from the workflow)")
    parser.add_argument("--out", required=True, type=Path, help="the node's manifest: results/<stage>/<id>/manifest.json")
    parser.add_argument("--log", type=Path, help="file for all output but progress and errors")
    parser.add_argument("--threads", type=int, default=1, help="cores granted; changes the speed only")
    parser.add_argument("--gpus", type=int, default=0, help="GPUs granted on this node; 0 runs on the CPU")
    parser.add_argument("--nodes", type=int, default=1, help="machines granted")
    parser.add_argument("--micro-batch", type=int, default=0, help="sequences a device takes at once; 0 chooses")
    parser.add_argument("--zero-stage", type=int, default=0, choices=range(4), help="DeepSpeed ZeRO stage")
    parser.add_argument("--save-minutes", type=float, default=10, help="minutes between checkpoints")
    parser.add_argument("--budget-minutes", type=float, default=0, help="save and leave (exit 75) after so many minutes; 0: no limit")
    parser.set_defaults(call=_run_stage, stage=stage)


def _run_stage(arguments: argparse.Namespace) -> int:
    from smelt.plan.job import execute

    names = ("gpus", "nodes", "micro_batch", "zero_stage", "save_minutes", "budget_minutes")
    options = {name: getattr(arguments, name) for name in names}
    execute(arguments.stage, arguments.spec, arguments.out, arguments.log, arguments.threads, options)
    return 0


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="smelt", description="Raw text to evaluated language models: the stages and the tools around the workflow.")
    parser.add_argument("--version", action="version", version=f"smelt {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for stage, about in STAGES.items():
        _stage_parser(commands, stage, about)
    arguments = parser.parse_args(argv)
    try:
        return arguments.call(arguments)
    except SmeltError as error:
        print(f"smelt: {error}", file=sys.stderr)
        return error.exit_code
