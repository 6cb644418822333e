"""The edit matrix: what a person may do to a finished run, and exactly what then runs again.

Nodes are named `stage/label`. What follows from what is written out by hand here, and not asked of the plan under test.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from checkouts import MINI, Checkout
from mini_texts import write_texts

MINI_END = {"report/mini", "archive/mini", "experiment/mini"}
TWIN_END = {"report/twin", "archive/twin", "experiment/twin"}
ENDS = MINI_END | TWIN_END
MOOD = {"finetune/mood", "finetune/mood-scratch", "evaluate/mood", "evaluate/mood-scratch"}
TALK = {"finetune/talk", "evaluate/talk"}
EVALUATIONS = {"evaluate/tiny", "evaluate/mood", "evaluate/mood-scratch", "evaluate/talk"}
FROM_CONVERT = {"convert/tiny", "benchmark/speed"} | MOOD | TALK | EVALUATIONS | ENDS
FROM_PRETRAIN = {"pretrain/tiny"} | FROM_CONVERT
FROM_SHARDS = {"shards/town"} | FROM_PRETRAIN
FROM_TOKENIZER = {"tokenizer/pieces"} | FROM_SHARDS
FROM_CORPUS = {"corpus/town"} | FROM_TOKENIZER
FROM_TASKS = {"task/mood", "task/talk"} | MOOD | TALK | MINI_END
NOTHING: set[str] = set()


@dataclass
class Place:
    """A finished run that an edit may alter, and how it is then called."""

    checkout: Checkout
    arguments: list[str] = field(default_factory=list)
    """Of snakemake alone: cores, GPUs, a profile's settings."""
    configfiles: list[Path] = field(default_factory=list)
    directory: Path | None = None
    cwd: Path | None = None

    @property
    def results(self) -> Path:
        return (self.directory or self.checkout.path) / "results"

    @property
    def both(self) -> list[str]:
        """Arguments that snakemake and `smelt explain` share."""
        files = self.configfiles or [self.checkout.path / MINI]
        where = ["--directory", str(self.directory)] if self.directory else []
        return ["--configfile", *map(str, files), *where]

    def node(self, name: str) -> Path:
        return Checkout(self.directory or self.checkout.path).node(name)

    def config(self, old: str, new: str) -> None:
        self.checkout.replace(str(MINI), old, new)

    def data(self) -> dict:
        return yaml.safe_load((self.checkout.path / MINI).read_text(encoding="utf-8"))

    def rewrite(self, data: dict, **how: object) -> None:
        (self.checkout.path / MINI).write_text(yaml.safe_dump(data, **how), encoding="utf-8")

    def module(self, name: str, line: str = "EDITED = 1") -> None:
        """One more statement at the end of a module of the package."""
        path = self.checkout.path / "workflow" / "smelt" / name
        assert path.is_file(), path
        with path.open("a", encoding="utf-8") as file:
            file.write(f"\n{line}\n")


@dataclass(frozen=True)
class Edit:
    name: str
    make: Callable[[Place], None]
    runs: set[str]
    causes: dict[str, str] = field(default_factory=dict)
    """Node → a key that explain must give as its cause."""


def setting(old: str, new: str) -> Callable[[Place], None]:
    return lambda place: place.config(old, new)


def module(name: str) -> Callable[[Place], None]:
    return lambda place: place.module(name)


def call(*arguments: str) -> Callable[[Place], None]:
    return lambda place: place.arguments.extend(arguments)


def code(name: str) -> str:
    """The key under which explain names a module or template."""
    return f"code.{name}" if "/" in name else f"code.smelt.{name}"


SETTINGS = [
    Edit("corpus.splits", setting("{valid: 0.1, test: 0.1}", "{valid: 0.1, test: 0.12}"), FROM_CORPUS, {"corpus/town": "settings.splits.test"}),
    Edit(
        "task.seed",
        setting("label: {by: column, column: label}", "label: {by: column, column: label}\n    seed: 2"),
        {"task/mood"} | MOOD | MINI_END,
        {"task/mood": "settings.seed", "finetune/mood": "upstream.task", "evaluate/mood-scratch": "upstream.task"},
    ),
    Edit("task.max_turns", setting("format: messages", "format: messages\n    max_turns: 4"), {"task/talk"} | TALK | MINI_END, {"task/talk": "settings.max_turns"}),
    Edit(
        "tokenizer.vocab_size",
        setting("vocab_size: 320", "vocab_size: 330"),
        FROM_TOKENIZER,
        {"tokenizer/pieces": "settings.vocab_size", "shards/town": "upstream.tokenizer"},
    ),
    Edit("shards.max_shard_bytes", setting("max_shard_bytes: 65536", "max_shard_bytes: 32768"), FROM_SHARDS, {"shards/town": "settings.max_shard_bytes"}),
    Edit("model.num_hidden_layers", setting("num_hidden_layers: 2", "num_hidden_layers: 3"), FROM_PRETRAIN, {"pretrain/tiny": "settings.model.num_hidden_layers"}),
    Edit(
        "pretraining.learning_rate",
        setting("learning_rate: 0.001", "learning_rate: 0.002"),
        FROM_PRETRAIN,
        {"pretrain/tiny": "settings.pretraining.learning_rate", "convert/tiny": "upstream.pretrain"},
    ),
    Edit("convert.parity_tokens", setting("parity_tokens: 64", "parity_tokens: 96"), FROM_CONVERT, {"convert/tiny": "settings.parity_tokens"}),
    Edit(
        "finetuning.lora.r",
        setting("lora: {r: 2}", "lora: {r: 4}"),
        TALK | MINI_END,
        {"finetune/talk": "settings.lora.r", "evaluate/talk": "upstream.finetune", "report/mini": "upstream.nodes"},
    ),
    Edit(
        "finetuning.weight_decay",
        setting("task: mood\n", "task: mood\n    weight_decay: 0.1\n"),
        MOOD | MINI_END,
        {"finetune/mood": "settings.weight_decay", "finetune/mood-scratch": "settings.weight_decay"},
    ),
    Edit("finetuning.from_scratch_reference", setting("task: mood\n", "task: mood\n    from_scratch_reference: false\n"), MINI_END, {"report/mini": "upstream.nodes"}),
    Edit("evaluate.max_new_tokens", setting("max_new_tokens: 4", "max_new_tokens: 5"), EVALUATIONS | ENDS, dict.fromkeys(EVALUATIONS, "settings.max_new_tokens")),
    Edit("benchmark.batch_size", setting("batch_size: 2\n", "batch_size: 3\n"), {"benchmark/speed"} | MINI_END, {"benchmark/speed": "settings.batch_size"}),
    Edit("report.title", setting("title: A mini experiment", "title: Another"), ENDS, {"report/mini": "settings.report.title", "report/twin": "settings.report.title"}),
    Edit(
        "archive.include_model",
        setting("report: {title: A mini experiment}", "report: {title: A mini experiment}\n    archive: {include_model: false}"),
        ENDS - {"report/mini", "report/twin"},
        {"archive/mini": "settings.archive.include_model"},
    ),
    Edit("two at once", lambda place: (place.config("lora: {r: 2}", "lora: {r: 4}"), place.config("batch_size: 2\n", "batch_size: 3\n")), TALK | {"benchmark/speed"} | MINI_END, {"finetune/talk": "settings.lora.r", "benchmark/speed": "settings.batch_size"}),
]  # fmt: skip


def _comments(place: Place) -> None:
    for path in _modules(place):
        path.write_text("# A remark.\n" + path.read_text(encoding="utf-8") + "\n# Another.\n", encoding="utf-8")


def _docstrings(place: Place) -> None:
    for path in _modules(place):
        path.write_text(path.read_text(encoding="utf-8").replace('"""', '"""In other words. ', 1), encoding="utf-8")


def _reformatted(place: Place) -> None:
    settings = place.checkout.path / "narrow.toml"
    settings.write_text('line-length = 60\n[format]\nquote-style = "single"\nskip-magic-trailing-comma = true\n')
    before = {path: path.read_bytes() for path in _modules(place)}
    command = [sys.executable, "-m", "ruff", "format", "--config", settings, "workflow/smelt"]
    subprocess.run(command, cwd=place.checkout.path, check=True, capture_output=True)
    assert sum(path.read_bytes() != text for path, text in before.items()) > len(before) / 2


def _modules(place: Place) -> list[Path]:
    return sorted((place.checkout.path / "workflow" / "smelt").rglob("*.py"))


def _spine(place: Place) -> None:
    package = place.checkout.path / "workflow" / "smelt"
    for path in [*(package / "plan").rglob("*.py"), package / "cli.py", package / "__main__.py"]:
        place.module(str(path.relative_to(package)))


def _release(place: Place) -> None:
    path = place.checkout.path / "workflow" / "smelt" / "__init__.py"
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub(r'__version__ = "[^"]*"', '__version__ = "99.0.0"', text), encoding="utf-8")
    assert path.read_text(encoding="utf-8") != text


def _beside_the_code(place: Place) -> None:
    (place.checkout.path / "workflow" / "smelt" / "corpus" / "idea.py").write_text("print('nobody imports this')\n")
    for file in ("README.md", "envs/requirements.txt", "tests/workflow/conftest.py"):
        path = place.checkout.path / file
        path.parent.mkdir(exist_ok=True)
        with path.open("a", encoding="utf-8") as opened:
            opened.write("\n# more\n")


def _rules(place: Place) -> None:
    """Message, threads, resources and shell line of every rule."""
    for path in (place.checkout.path / "workflow" / "rules").glob("*.smk"):
        text = path.read_text(encoding="utf-8")
        edited = text.replace('"exec smelt', '"exec  smelt').replace('message:\n        "', 'message:\n        "Now: ')
        edited = re.sub(r"threads: .*", "threads: 1", edited).replace(
            "mem_mb=need(", "disk_mb=7,\n        mem_mb=need("
        )
        assert edited != text
        path.write_text(edited, encoding="utf-8")


CODE = [
    *(
        Edit(f"code of {name}", module(name), runs, {node: code(name.removesuffix(".py").replace("/", "."))})
        for name, node, runs in [
            ("corpus/stage.py", "corpus/town", FROM_CORPUS),
            ("task/stage.py", "task/mood", FROM_TASKS),
            ("tokenizer/training.py", "tokenizer/pieces", FROM_TOKENIZER),
            ("shards/stage.py", "shards/town", FROM_SHARDS),
            ("pretrain/stage.py", "pretrain/tiny", FROM_PRETRAIN),
            ("convert/stage.py", "convert/tiny", FROM_CONVERT),
            ("finetune/course.py", "finetune/mood-scratch", MOOD | TALK | MINI_END),
            ("evaluate/stage.py", "evaluate/tiny", EVALUATIONS | ENDS),
            ("benchmark/stage.py", "benchmark/speed", {"benchmark/speed"} | MINI_END),
            ("report/chart.py", "report/twin", ENDS),
            ("archive/stage.py", "archive/mini", ENDS - {"report/mini", "report/twin"}),
            # What several stages share.
            ("data/documents.py", "corpus/town", FROM_CORPUS | FROM_TASKS),
            ("data/encoder.py", "tokenizer/pieces", FROM_TOKENIZER),
            ("data/order.py", "pretrain/tiny", FROM_PRETRAIN),
            ("data/dialogue.py", "finetune/talk", MOOD | TALK | EVALUATIONS | ENDS),
            ("models/lora.py", "finetune/talk", {"benchmark/speed"} | MOOD | TALK | MINI_END),
            ("training/schedule.py", "pretrain/tiny", FROM_PRETRAIN),
        ]
    ),
    Edit(
        "template of the report",
        lambda place: place.checkout.replace("workflow/smelt/report/page.html.j2", "<body", '<body class="new"'),
        ENDS,
        {"report/mini": code("smelt/report/page.html.j2")},
    ),
    Edit("style of the report", lambda place: _append(place.checkout.path / "workflow/smelt/report/page.css", "\n/* x */\n"), ENDS, {"report/mini": code("smelt/report/page.css")}),
    Edit("comments everywhere", _comments, NOTHING),
    Edit("docstrings everywhere", _docstrings, NOTHING),
    Edit("code formatted otherwise", _reformatted, NOTHING),
    Edit("the spine and the command line", _spine, NOTHING),
    Edit("a release: the version number", _release, NOTHING),
    Edit("a module that nobody imports, README, lock, tests", _beside_the_code, NOTHING),
    Edit("message, threads, resources and shell line of every rule", _rules, NOTHING),
]  # fmt: skip


def _append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


def _other_order(place: Place) -> None:
    def reverse(value: object) -> object:
        if isinstance(value, dict):
            return {key: reverse(value[key]) for key in reversed(value)}
        return value

    place.rewrite(reverse(place.data()), sort_keys=False)


def _anchors(place: Place) -> None:
    place.config(
        "    train_batch_size: 16\n    logging_steps: 2\n  talk:\n",
        "    <<: &steps {train_batch_size: 16, logging_steps: 2}\n  talk:\n",
    )
    place.config("    num_train_epochs: 1\n    train_batch_size: 16\n    logging_steps: 2\n", "    <<: *steps\n    num_train_epochs: 1\n")  # fmt: skip


def _numbers(place: Place) -> None:
    for old, new in [
        ("learning_rate: 0.001", "learning_rate: 1e-3"),
        ("{valid: 0.1, test: 0.1}", "{valid: 1.0e-1, test: .10}"),
        ("max_shard_bytes: 65536", "max_shard_bytes: 0x10000"),
        ("character_coverage: 1.0", "character_coverage: 1"),
        ("max_steps: 20", "max_steps: 2_0"),
    ]:
        place.config(old, new)


def _defaults(place: Place) -> None:
    place.config(
        "    seed: 3\n", "    seed: 3\n    cleaning: {unicode: keep, max_characters: null}\n    text_key: text\n"
    )
    place.config("    task: talk\n", "    task: talk\n    init: pretrained\n    weight_decay: 0.01\n")


def _two_files(place: Place) -> None:
    data = place.data()
    whole = data.pop("experiments")
    # The second file overrides what the first has.
    rate, data["pretraining"]["short"]["learning_rate"] = data["pretraining"]["short"]["learning_rate"], 0.5
    second = {"experiments": whole, "pretraining": {"short": {"learning_rate": rate}}}
    place.configfiles = [place.checkout.path / "first.yaml", place.checkout.path / "second.yaml"]
    for path, content in zip(place.configfiles, (data, second), strict=True):
        path.write_text(yaml.safe_dump(content), encoding="utf-8")


def _resources(place: Place) -> None:
    training = "threads: 2, minutes: 9, micro_batch: 4, save_minutes: 1, budget_minutes: 30, memory: 100"
    stages = f"{{pretrain: {{{training}, gpus: 2, zero_stage: 2}}, finetune: {{{training}, gpus: 1}}, evaluate: {{gpus: 1}}}}"
    place.config("    benchmark: speed\n", f"    benchmark: speed\n    resources: {stages}\n")
    place.config("    learning_rate: 0.001\n", f"    learning_rate: 0.001\n    resources: {{{training}}}\n")


def _like(place: Place) -> None:
    place.config("  talk:\n    task: talk\n", "  talk:\n    like: mood\n    task: talk\n")


def _reverted(place: Place) -> None:
    """Planned once as edited, then edited back."""
    place.config("vocab_size: 320", "vocab_size: 330")
    place.module("convert/stage.py")
    assert place.checkout.would_run(*place.both)
    place.config("vocab_size: 330", "vocab_size: 320")
    path = place.checkout.path / "workflow" / "smelt" / "convert" / "stage.py"
    path.write_text(path.read_text(encoding="utf-8").removesuffix("\nEDITED = 1\n"), encoding="utf-8")


def _added(name: str, block: str) -> Callable[[Place], None]:
    return lambda place: _append(place.checkout.path / MINI, f"  {name}:\n    {block}\n")


THIRD_END = {"report/third", "archive/third", "experiment/third"}

CONFIGURATION = [
    Edit("key order", _other_order, NOTHING),
    Edit("an anchor", _anchors, NOTHING),
    Edit("numbers written otherwise", _numbers, NOTHING),
    Edit("flow style, no comments", lambda place: place.rewrite(place.data(), default_flow_style=True), NOTHING),
    Edit("defaults written out", _defaults, NOTHING),
    Edit("like instead of a copy", _like, NOTHING),
    Edit("two files, the second overriding the first", _two_files, NOTHING),
    Edit("GPUs, micro-batch and the rest of resources", _resources, NOTHING),
    Edit("blocks that no experiment uses", setting("models:\n", "models:\n  huge: {hidden_size: 4096, num_attention_heads: 32}\n"), NOTHING),
    Edit("an edit reverted", _reverted, NOTHING),
    Edit("an experiment taken out", setting("  twin:\n    like: mini\n    finetuning: []\n    benchmark: null\n", ""), NOTHING),
    Edit("an experiment added that shares every stage", _added("third", "like: twin"), THIRD_END, {"report/third": "manifest.json"}),
    Edit(
        "an experiment added with another tokenizer",
        lambda place: (_added("third", "like: twin\n    tokenizer: more")(place), place.config("tokenizers:\n", "tokenizers:\n  more: {vocab_size: 340}\n")),
        {"tokenizer/more", "shards/town", "pretrain/tiny", "convert/tiny", "evaluate/tiny"} | THIRD_END,
        {"tokenizer/more": "manifest.json", "shards/town": "upstream.tokenizer"},
    ),
    Edit(
        "one of two experiments that share stages is measured otherwise",
        setting("    benchmark: null\n", "    benchmark: null\n    evaluate: {stride: 16}\n"),
        {"evaluate/tiny"} | TWIN_END,
        {"evaluate/tiny": "settings.stride"},
    ),
    Edit("an experiment renamed", setting("  twin:\n", "  third:\n"), THIRD_END, {"archive/third": "settings.experiment"}),
    Edit(
        "a fine-tuning renamed",
        lambda place: (place.config("  talk:\n    task: talk\n", "  chat:\n    task: talk\n"), place.config("[mood, talk]", "[mood, chat]")),
        {"finetune/chat", "evaluate/chat"} | MINI_END,
        {"finetune/chat": "manifest.json", "evaluate/chat": "upstream.finetune"},
    ),
]  # fmt: skip


def _touch_everything(place: Place) -> None:
    for path in place.checkout.path.rglob("*"):
        if not path.is_symlink():
            os.utime(path)


def _cloned(place: Place) -> None:
    """Elsewhere, without times and without Snakemake's records."""
    clone = place.checkout.path.with_name("clone 复制")
    shutil.rmtree(place.checkout.path / ".snakemake")
    shutil.copytree(place.checkout.path, clone, symlinks=True, copy_function=shutil.copyfile)
    shutil.rmtree(place.checkout.path)
    place.checkout = Checkout(clone)


def _other_directory(place: Place) -> None:
    place.directory = place.checkout.path.with_name("elsewhere")
    place.directory.mkdir()
    for name in ("results", "texts"):
        (place.checkout.path / name).rename(place.directory / name)


def _records_removed(place: Place) -> None:
    shutil.rmtree(place.checkout.path / ".snakemake")


def _records_removed_and_more(place: Place) -> None:
    _records_removed(place)
    place.module("benchmark/stage.py")
    _cut(place, "finetune/talk", "curve.jsonl")


def _cut(place: Place, node: str, file: str) -> None:
    path = place.node(node) / file
    os.truncate(path, path.stat().st_size - 1)


def _leftovers_removed(place: Place) -> None:
    for name in ("state", "log.txt", "benchmark.jsonl"):
        found = [*place.results.glob(f"*/*/{name}")]
        assert found, name
        for path in found:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _altered(place: Place) -> None:
    """Another figure in a manifest, with the old time."""
    path = place.node("convert/tiny") / "manifest.json"
    about = path.stat()
    path.write_text(path.read_text(encoding="utf-8").replace('"parameters": ', '"parameters": 1'), encoding="utf-8")
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))


def _rewritten_texts(place: Place) -> None:
    shutil.rmtree(place.checkout.path / "texts")
    write_texts(place.checkout.path / "texts")
    (place.checkout.path / "texts" / "notes.txt").write_text("no source names this\n")


def _unlink(node: str, file: str) -> Callable[[Place], None]:
    return lambda place: (place.node(node) / file).unlink()


def _elsewhere_in_the_shell(place: Place) -> None:
    place.directory, place.cwd = place.checkout.path, place.checkout.path.parent


FILES = [
    Edit("touch of everything", _touch_everything, NOTHING),
    Edit("a fresh clone, results moved over", _cloned, NOTHING),
    Edit("another --directory", _other_directory, NOTHING),
    Edit("called from another folder", _elsewhere_in_the_shell, NOTHING),
    Edit("other --cores", call("--cores", "1"), NOTHING),
    Edit("other --jobs, threads and GPUs", call("--jobs", "7", "--set-threads", "pretrain=1", "--set-resources", "pretrain:gpu=4", "finetune:gpu=0", "--resources", "gpu=8"), NOTHING),
    Edit("removed .snakemake", _records_removed, NOTHING),
    Edit(
        "removed .snakemake, code edited, a file cut off",
        _records_removed_and_more,
        {"benchmark/speed"} | TALK | MINI_END,
        {"benchmark/speed": "code.smelt.benchmark.stage", "finetune/talk": "files"},
    ),
    Edit("state, logs and benchmarks of rules removed", _leftovers_removed, NOTHING),
    Edit("a file cut off", lambda place: _cut(place, "tokenizer/pieces", "tokenizer.model"), FROM_TOKENIZER, {"tokenizer/pieces": "files"}),
    Edit("a file deleted beside its manifest", _unlink("convert/tiny", "hf/config.json"), FROM_CONVERT, {"convert/tiny": "files"}),
    Edit("a manifest deleted", _unlink("evaluate/mood", "manifest.json"), {"evaluate/mood"} | MINI_END, {"evaluate/mood": "manifest.json"}),
    Edit("a manifest that is not one", lambda place: (place.node("evaluate/mood") / "manifest.json").write_text("{"), {"evaluate/mood"} | MINI_END, {"evaluate/mood": "files"}),
    Edit("a manifest altered", _altered, FROM_CONVERT, {"convert/tiny": "manifest.json"}),
    Edit("provenance deleted", _unlink("benchmark/speed", "provenance.json"), {"benchmark/speed"} | MINI_END, {"benchmark/speed": "provenance.json"}),
    Edit("a node deleted", lambda place: shutil.rmtree(place.node("finetune/mood")), {"finetune/mood", "evaluate/mood"} | MINI_END, {"finetune/mood": "manifest.json"}),
    Edit("a view deleted", lambda place: shutil.rmtree(place.results / "experiments" / "twin"), {"experiment/twin"}),
    Edit("texts written again, the same", _rewritten_texts, NOTHING),
    Edit("a text with other content", lambda place: _append(place.checkout.path / "texts/articles/east.txt", "\nOne more.\n"), FROM_CORPUS, {"corpus/town": "files.texts/articles: east.txt"}),
    Edit("a text more in a source's folder", lambda place: _append(place.checkout.path / "texts/articles/north.txt", "One more.\n"), FROM_CORPUS, {"corpus/town": "files.texts/articles: north.txt"}),
    Edit("a task's file with other content", lambda place: _append(place.checkout.path / "texts/mood.tsv", "sad\tIt rained.\n"), {"task/mood"} | MOOD | MINI_END, {"task/mood": "files.texts/mood.tsv: mood.tsv"}),
]  # fmt: skip

EDITS = [*SETTINGS, *CODE, *CONFIGURATION, *FILES]
