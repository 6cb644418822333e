"""Experiments → nodes. A node is one stage with one set of settings and one set of upstream nodes, whoever asks for it.

Its id is `<label>-<10 hex digits of sha256(stage, settings, upstream ids)>`: the same experiment in another file, order,
folder or on other hardware is the same node. The code is not in the id but in the `spec`, so that a code edit runs the node again in place.
"""

import functools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from smelt.plan.config import Block, Configuration
from smelt.plan.errors import ConfigError, SmeltError
from smelt.plan.identity import code_digest
from smelt.plan.manifest import FORMAT, canonical, sha256_text
from smelt.plan.misfits import misfits
from smelt.plan.settings.experiment import Experiment, Need
from smelt.plan.source_files import file_digests
from smelt.plan.stages import STAGES

LONGEST_SPEC = 100_000
"""Bytes. Linux takes 131,072 in one argument, and Snakemake passes a whole shell line as one."""

Ref = str
"""`stage/id`, which is also the node's folder under `results/`."""


@dataclass(frozen=True)
class Node:
    stage: str
    id: str
    settings: dict[str, Any]
    upstream: dict[str, Ref | list[Ref]]
    """Role → the node or nodes that play it."""

    @property
    def ref(self) -> Ref:
        return f"{self.stage}/{self.id}"

    @property
    def label(self) -> str:
        return self.id.rpartition("-")[0]

    @functools.cached_property
    def above(self) -> list[Ref]:
        """All upstream nodes, each once, in a fixed order."""
        refs: list[Ref] = []
        for role in sorted(self.upstream):
            given = self.upstream[role]
            refs += [given] if isinstance(given, str) else given
        return list(dict.fromkeys(refs))

    @functools.cached_property
    def spec(self) -> dict[str, Any]:
        """All that determines the product, but for the upstream contents."""
        spec: dict[str, Any] = {
            "format": FORMAT,
            "stage": self.stage,
            "settings": self.settings,
            "upstream": self.upstream,
            "code": code_digest(self.stage),
        }
        if digests := file_digests(self.settings):
            spec["files"] = digests
        return spec

    @functools.cached_property
    def spec_text(self) -> str:
        """The one param of the node's rule. Raises SmeltError if it would not fit into a command line."""
        text = canonical(self.spec)
        if len(text.encode()) > LONGEST_SPEC:
            raise SmeltError(
                f"{self.ref}: its settings and upstream nodes are {len(text.encode()):,} bytes long, more than the "
                f"{LONGEST_SPEC:,} that a command line can carry; name many sources by one glob, or split the experiment"
            )
        return text


@dataclass
class Plan:
    """The nodes of all experiments."""

    configuration: Configuration
    nodes: dict[Ref, Node] = field(default_factory=dict)
    experiments: dict[str, list[Ref]] = field(default_factory=dict)
    """Name → the experiment's nodes, upstream first; the last two are its report and its archive."""
    needs: dict[Ref, list[Need]] = field(default_factory=dict)
    """What the configuration says a node needs; see `resources`."""

    @classmethod
    def load(cls, paths: list[Path]) -> "Plan":
        """Raises ConfigError with every problem of every file, and of what does not fit together."""
        configuration, problems = Configuration.look(paths)
        problems += misfits(configuration)
        if not problems and not configuration.blocks["experiments"]:
            where = configuration.where(("experiments",))
            problems.append(f"{where}: there is no experiment, so nothing could run; add a block under `experiments:`")
        if problems:
            raise ConfigError(problems)
        plan = cls(configuration)
        for name, block in configuration.blocks["experiments"].items():
            plan._add(name, block.value)
        return plan

    def node(self, stage: str, id: str) -> Node:
        """Raises KeyError for a node that no experiment has."""
        return self.nodes[f"{stage}/{id}"]

    def below(self, refs: set[Ref]) -> list[Ref]:
        """All nodes that depend on any of `refs`, upstream first."""
        reached: set[Ref] = set()
        todo = list(refs)
        while todo:
            found = [ref for ref in self._children.get(todo.pop(), ()) if ref not in reached and ref not in refs]
            reached.update(found)
            todo += found
        return [ref for ref in self.nodes if ref in reached]

    @functools.cached_property
    def _children(self) -> dict[Ref, list[Ref]]:
        """Node → the nodes that are made from it; asked for when all nodes are there."""
        children: dict[Ref, list[Ref]] = {}
        for ref, node in self.nodes.items():
            for above in node.above:
                children.setdefault(above, []).append(ref)
        return children

    def _node(
        self, stage: str, label: str, settings: dict[str, Any], need: list[Need | None], **upstream: Ref | list[Ref]
    ) -> Ref:
        identity = sha256_text(canonical([stage, settings, upstream]))[:10]
        node = Node(stage, f"{label}-{identity}", settings, upstream)
        self.nodes.setdefault(node.ref, node)
        self.needs.setdefault(node.ref, []).extend(each for each in need if each is not None)
        return node.ref

    def _add(self, name: str, experiment: Experiment) -> None:
        blocks, refs = self.configuration.blocks, []

        def add(
            stage: str, label: str, settings: dict[str, Any], block: Block | None = None, **upstream: Ref | list[Ref]
        ) -> Ref:
            ref = self._node(
                stage, label, settings, [block.need if block else None, experiment.resources.get(stage)], **upstream
            )
            refs.append(ref)
            return ref

        corpus_block = blocks["corpora"][experiment.corpus]
        tokenizer_block = blocks["tokenizers"][experiment.tokenizer]
        model_block = blocks["models"][experiment.model]
        training_block = blocks["pretraining"][experiment.pretraining]
        corpus = add("corpus", corpus_block.name, dump(corpus_block.value), corpus_block)
        tokenizer = add("tokenizer", tokenizer_block.name, dump(tokenizer_block.value), tokenizer_block, corpus=corpus)
        shards = add("shards", corpus_block.name, dump(experiment.shards), corpus=corpus, tokenizer=tokenizer)
        training = {"model": dump(model_block.value), "pretraining": dump(training_block.value)}
        pretrain = add("pretrain", model_block.name, training, training_block, shards=shards, tokenizer=tokenizer)
        if model_block.need:
            self.needs[pretrain].insert(0, model_block.need)
        convert = add(
            "convert", model_block.name, dump(experiment.convert), pretrain=pretrain, tokenizer=tokenizer, shards=shards
        )
        add("evaluate", model_block.name, dump(experiment.evaluate), convert=convert, shards=shards)
        for block in (
            blocks["finetuning"][member]
            for given in experiment.finetuning
            for member in self.configuration.names("finetuning", given)
        ):
            task_block = blocks["tasks"][block.value.task]
            task = add("task", task_block.name, dump(task_block.value), task_block)
            for label, settings in _with_reference(block, task_block):
                finetune = add("finetune", label, settings, block, convert=convert, task=task)
                add("evaluate", label, dump(experiment.evaluate), finetune=finetune, task=task, convert=convert)
        if experiment.benchmark is not None:
            block = blocks["benchmarks"][experiment.benchmark]
            add("benchmark", block.name, dump(block.value), block, convert=convert, shards=shards)
        nodes = list(dict.fromkeys(refs))
        report = add("report", name, {"experiment": name, "report": dump(experiment.report)}, nodes=nodes)
        archived = {"experiment": name, "archive": dump(experiment.archive), "configuration": self.resolved(name)}
        add("archive", name, archived, report=report, nodes=nodes)
        order = {stage: position for position, stage in enumerate(STAGES)}
        self.experiments[name] = sorted(dict.fromkeys(refs), key=lambda ref: order[ref.partition("/")[0]])

    def resolved(self, name: str) -> dict[str, Any]:
        """A configuration that holds this experiment alone, nothing inherited: what the archive ships, to be run again."""
        blocks = self.configuration.blocks
        value = blocks["experiments"][name].value
        finetuning = [member for given in value.finetuning for member in self.configuration.names("finetuning", given)]
        tasks = dict.fromkeys(blocks["finetuning"][member].value.task for member in finetuning)
        used: dict[str, list[str]] = {
            "corpora": [value.corpus],
            "tokenizers": [value.tokenizer],
            "models": [value.model],
            "pretraining": [value.pretraining],
            "tasks": list(tasks),
            "finetuning": finetuning,
            "benchmarks": [value.benchmark] if value.benchmark else [],
        }
        resolved = {
            section: {each: dump(blocks[section][each].value) for each in names}
            for section, names in used.items()
            if names
        }
        experiment = {key: given for key, given in dump(value).items() if key != "resources"}
        return {**resolved, "experiments": {name: {**experiment, "finetuning": finetuning}}}


def dump(value: Any) -> dict[str, Any]:
    """Settings as they are hashed: every key, defaults included."""
    return value.model_dump(mode="json")


def _with_reference(block: Block, task: Block) -> list[tuple[str, dict[str, Any]]]:
    """(label, settings) of a fine-tuning, and of its sibling from random weights for comparison."""
    settings = {key: value for key, value in dump(block.value).items() if key not in ("task", "from_scratch_reference")}
    found = [(block.name, settings)]
    if block.value.from_scratch_reference and task.value.kind == "classification" and settings["init"] == "pretrained":
        found.append((f"{block.name}-scratch", {**settings, "init": "random"}))
    return found
