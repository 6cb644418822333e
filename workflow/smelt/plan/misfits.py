"""What is sound by itself and does not fit together: told before anything runs, beside the other problems of the files."""

from collections.abc import Iterator

from smelt.plan.complaint import nearest
from smelt.plan.config import Block, Configuration
from smelt.plan.errors import DataError
from smelt.plan.settings.experiment import Experiment
from smelt.plan.settings.source import FileSource
from smelt.plan.source_files import readable_files
from smelt.plan.stages import STAGES

SINGLE = {
    "corpus": "corpora",
    "tokenizer": "tokenizers",
    "model": "models",
    "pretraining": "pretraining",
    "benchmark": "benchmarks",
}
"""Keys of an experiment that name one block → the section of that block."""


def misfits(configuration: Configuration) -> list[str]:
    """One line each. Blocks that are missing or have problems of their own are passed over: those are told elsewhere."""
    found: list[str] = []
    for block in configuration.blocks["experiments"].values():
        for check in (_matrices, _tasks, _stages, _absent_files, _lengths):
            found += check(configuration, block)
    return list(dict.fromkeys(found))


def _matrices(configuration: Configuration, block: Block) -> Iterator[str]:
    for key, section in SINGLE.items():
        name = getattr(block.value, key)
        members = configuration.names(section, name) if name is not None else []
        if members and name not in members:
            listed = ", ".join(members)
            yield (
                f"{configuration.where(('experiments', block.origin, key))}: {name!r} is a matrix ({listed}); "
                f"name one of them, or put `each: {{{key}: [{listed}]}}` in the experiment"
            )


def _tasks(configuration: Configuration, block: Block) -> Iterator[str]:
    for tuning in _finetunings(configuration, block.value):
        members = configuration.names("tasks", tuning.value.task)
        if members and tuning.value.task not in members:
            yield (
                f"{configuration.where(('finetuning', tuning.origin, 'task'))}: {tuning.value.task!r} is a matrix "
                f"({', '.join(members)}); name one of them, or put `each: {{task: [{', '.join(members)}]}}` here"
            )


def _stages(configuration: Configuration, block: Block) -> Iterator[str]:
    for stage in sorted(set(block.value.resources) - set(STAGES)):
        where = configuration.where(("experiments", block.origin, "resources", stage))
        yield f"{where}: no stage is named {stage!r}{nearest(stage, STAGES)}; the stages are {', '.join(STAGES)}"


def _absent_files(configuration: Configuration, block: Block) -> Iterator[str]:
    """Files that sources name and that are not there."""
    used = [("corpora", block.value.corpus)]
    used += [("tasks", tuning.value.task) for tuning in _finetunings(configuration, block.value)]
    for section, name in dict.fromkeys(used):
        data = configuration.blocks[section].get(name)
        for position, source in enumerate(data.value.sources if data else []):
            if data and isinstance(source, FileSource):
                try:
                    readable_files(source)
                except DataError as error:
                    yield f"{configuration.where((section, data.origin, 'sources', position, 'path'))}: {error}"


def _lengths(configuration: Configuration, block: Block) -> Iterator[str]:
    model = configuration.blocks["models"].get(block.value.model)
    training = configuration.blocks["pretraining"].get(block.value.pretraining)
    if model and training and training.value.sequence_length > model.value.max_position_embeddings:
        yield (
            f"{configuration.where(('experiments', block.origin, 'pretraining'))}: {training.name!r} has sequence_length "
            f"{training.value.sequence_length}, but model {model.name!r} has max_position_embeddings "
            f"{model.value.max_position_embeddings}; raise the one or lower the other"
        )


def _finetunings(configuration: Configuration, experiment: Experiment) -> list[Block]:
    members = [member for given in experiment.finetuning for member in configuration.names("finetuning", given)]
    blocks = configuration.blocks["finetuning"]
    return [blocks[member] for member in members if member in blocks]
