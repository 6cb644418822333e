"""What is sound by itself and does not fit together: told before anything runs, beside the other problems of the files."""

from collections.abc import Iterator

from smelt.plan.complaint import nearest
from smelt.plan.config import Block, Configuration
from smelt.plan.errors import DataError
from smelt.plan.settings.experiment import Experiment, Need
from smelt.plan.settings.source import FileSource
from smelt.plan.source_files import readable_files
from smelt.plan.stages import STAGES, USED

SINGLE = {
    "corpus": "corpora",
    "tokenizer": "tokenizers",
    "model": "models",
    "pretraining": "pretraining",
    "benchmark": "benchmarks",
}
"""Keys of an experiment that name one block → the section of that block."""
STAGE_OF = {
    "corpora": "corpus",
    "tokenizers": "tokenizer",
    "models": "pretrain",
    "pretraining": "pretrain",
    "benchmarks": "benchmark",
}
"""Section → the stage that a block's `resources:` are for."""


def misfits(configuration: Configuration) -> list[str]:
    """One line each. Blocks that are missing or have problems of their own are passed over: those are told elsewhere."""
    found: list[str] = []
    for block in configuration.blocks["experiments"].values():
        for check in (_matrices, _tasks, _stages, _needs, _absent_files, _lengths):
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


def _needs(configuration: Configuration, block: Block) -> Iterator[str]:
    """Resources of which a stage makes no use."""
    asked: list[tuple[str, Need, tuple[str, ...]]] = [
        (stage, need, ("experiments", block.origin, "resources", stage))
        for stage, need in block.value.resources.items()
    ]
    used = [
        (STAGE_OF[section], configuration.blocks[section].get(getattr(block.value, key)))
        for key, section in SINGLE.items()
    ]
    for tuning in _finetunings(configuration, block.value):
        used += [("finetune", tuning), ("task", configuration.blocks["tasks"].get(tuning.value.task))]
    asked += [
        (stage, data.need, (data.section, data.origin, "resources")) for stage, data in used if data and data.need
    ]
    for stage, need, path in asked:
        for key, value in need.model_dump(exclude_none=True).items():
            keys = USED.get(stage)
            if keys and key not in keys:
                yield f"{configuration.where((*path, key))}: {stage} makes no use of it; it can be given {', '.join(keys)}"
            elif keys and key == "gpus" and value > 1 and stage != "pretrain":
                yield f"{configuration.where((*path, key))}: {value}: {stage} runs on one GPU; write 1, or 0 for the CPU"


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
    """Sequences that are longer than the network can take."""
    model = configuration.blocks["models"].get(block.value.model)
    if model is None:
        return
    experiment, longest = block.value, model.value.max_position_embeddings
    training = configuration.blocks["pretraining"].get(experiment.pretraining)
    benchmark = configuration.blocks["benchmarks"].get(experiment.benchmark)
    asked = [
        (each.section, each.origin, "sequence_length", each.value.sequence_length)
        for each in (training, benchmark)
        if each
    ]
    asked += [
        ("finetuning", each.origin, "max_length", each.value.max_length)
        for each in _finetunings(configuration, experiment)
    ]
    asked += [("experiments", block.origin, "evaluate.sequence_length", experiment.evaluate.sequence_length)]
    for section, name, key, length in asked:
        if length is not None and length > longest:
            yield (
                f"{configuration.where((section, name, *key.split('.')))}: {length} is more than max_position_embeddings "
                f"{longest} of model {model.name!r}, with which experiment {block.name!r} uses it; raise the one or lower the other"
            )


def _finetunings(configuration: Configuration, experiment: Experiment) -> list[Block]:
    members = [member for given in experiment.finetuning for member in configuration.names("finetuning", given)]
    blocks = configuration.blocks["finetuning"]
    return [blocks[member] for member in members if member in blocks]
