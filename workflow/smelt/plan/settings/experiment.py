"""Experiments: which blocks belong together; and what nodes need of the machine, which is never part of their identity."""

from typing import Annotated

from pydantic import Field, PositiveInt

from smelt.plan.settings.archive import Archive
from smelt.plan.settings.base import Settings, reference
from smelt.plan.settings.convert import Convert
from smelt.plan.settings.evaluate import Evaluate
from smelt.plan.settings.report import Report
from smelt.plan.settings.shards import Shards


class Need(Settings):
    """What a node asks of the machine. Changes how it runs, never what it computes, so nothing runs again for it."""

    threads: PositiveInt | None = None
    """Cores."""
    memory: PositiveInt | None = None
    """MB of main memory on each machine."""
    minutes: PositiveInt | None = None
    """Time limit of one attempt, for schedulers that set one; on one machine nothing is cut off."""
    gpus: Annotated[int, Field(ge=0)] | None = None
    """GPUs on each machine; 0 runs on the CPU."""
    micro_batch: PositiveInt | None = None
    """Sequences that a device takes at once. Gradient accumulation follows from it and the global batch."""
    zero_stage: Annotated[int, Field(ge=0, le=3)] | None = None
    """DeepSpeed ZeRO stage: what is partitioned over the devices (1 optimizer, 2 gradients too, 3 parameters too)."""
    save_minutes: Annotated[float, Field(gt=0)] | None = None
    """Minutes between checkpoints."""
    budget_minutes: Annotated[float, Field(ge=0)] | None = None
    """Minutes after which a training saves and leaves by itself (exit code 75); run again, it goes on. 0 sets no limit."""


class Experiment(Settings):
    """One line of work from text to report. Two experiments that agree on a stage share its node and its results."""

    corpus: str = reference("corpora")
    """The text to train on."""
    tokenizer: str = reference("tokenizers")
    """How the text becomes tokens."""
    shards: Shards = Shards()
    """How tokens are stored."""
    model: str = reference("models")
    """The network."""
    pretraining: str = reference("pretraining")
    """How the network is trained on the shards."""
    convert: Convert = Convert()
    """The Hugging Face export."""
    finetuning: list[str] = reference("finetuning", [])
    """What the pretrained model is trained on afterwards. The name of a matrix stands for all its members."""
    evaluate: Evaluate = Evaluate()
    """How models are measured."""
    benchmark: str | None = reference("benchmarks", None)
    """Speed and memory; none if left out."""
    report: Report = Report()
    """The page."""
    archive: Archive = Archive()
    """The file to publish."""
    resources: dict[str, Need] = {}
    """By stage, what its nodes need: overrides what the planner works out (`smelt plan` shows it)."""
