"""Bad input: one clear error that names the place, the value and the way out; no traceback; nothing already made is altered.

What stages refuse (checksums, addresses, archives, encodings, empty splits, missing labels, full disks) is tested beside them:
tests/data, tests/corpus, tests/task, tests/tokenizer.
"""

import fcntl
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from small_plan import finish, load, small, tree_digest, write
from smelt import cli

ROOT = Path(__file__).resolve().parents[2]
CONFIG_SECONDS = 3

Edit = Callable[[dict[str, Any]], Any]


def put(path: str, value: Any) -> Edit:
    """Set the key at a dotted path."""

    def edit(config: dict[str, Any]) -> None:
        *keys, last = path.split(".")
        block: Any = config
        for key in keys:
            block = block[int(key)] if isinstance(block, list) else block[key]
        block[int(last) if isinstance(block, list) else last] = value

    return edit


def name_it(section: str, name: Any) -> Edit:
    """Give the first block of a section another name."""

    def edit(config: dict[str, Any]) -> None:
        block = next(iter(config[section].values()))
        config[section] = {name: block}

    return edit


MAPPINGS: list[tuple[str, Edit, list[str]]] = [
    ("an unknown section", put("modells", {}), ["modells: no such section (did you mean 'models'?)"]),
    ("a section that is a list", put("corpora", []), ["corpora: [] is not a mapping of named blocks"]),
    ("a section that is text", put("models", "mini"), ["models: 'mini' is not a mapping"]),
    ("a block that is a number", put("models.mini", 3), ["models.mini: 3 is not a block of settings; write `key: value`"]),
    ("a block that is empty", put("models.mini", None), ["models.mini: None is not a block of settings"]),
    ("an unknown key", put("models.mini.hiden_size", 1), ["models.mini.hiden_size: no such key (did you mean 'hidden_size'?)"]),
    ("an unknown key deep down", put("finetuning.sentiment.lora", {"rank": 8}), ["finetuning.sentiment.lora.rank: no such key", "the keys are"]),
    ("an unknown key in a list", put("corpora.en.sources.0.checksum", "x"), ["corpora.en.sources[0].checksum: no such key"]),
    ("a key of another section", put("experiments.first.learning_rate", 1), ["experiments.first.learning_rate: no such key"]),
    ("text for a number", put("models.mini.hidden_size", "64"), ["models.mini.hidden_size: '64'", "should be a whole number"]),
    ("a fraction for a whole number", put("models.mini.hidden_size", 64.5), ["models.mini.hidden_size: 64.5", "should be a whole number"]),
    ("truth for a number", put("models.mini.hidden_size", True), ["models.mini.hidden_size: True", "should be a whole number"]),
    ("a number for truth", put("models.mini.tie_word_embeddings", 1), ["models.mini.tie_word_embeddings: 1", "should be true or false"]),
    ("a number for text", put("corpora.en.text_key", 3), ["corpora.en.text_key: 3", "should be text"]),
    ("a list for a number", put("pretraining.short.seed", [1]), ["pretraining.short.seed: [1]", "should be a whole number"]),
    ("a mapping for a number", put("pretraining.short.seed", {"a": 1}), ["pretraining.short.seed: {'a': 1}"]),
    ("text for a list", put("experiments.first.finetuning", "sentiment"), ["experiments.first.finetuning: 'sentiment'", "should be a list"]),
    ("nothing for a number", put("models.mini.hidden_size", None), ["models.mini.hidden_size: None"]),
    ("no choice of those there are", put("models.mini.architecture", "gtp2"), ["models.mini.architecture: 'gtp2' is none of 'gpt2'", "did you mean 'gpt2'?"]),
    ("a kind that is none", put("tasks.reviews.kind", "clasification"), ["tasks.reviews.kind: 'clasification' is none of 'classification'"]),
    ("a kind that is missing", put("corpora.en.sources", [{"path": "x"}]), ["corpora.en.sources[0]", "kind"]),
    ("no source at all", put("corpora.en.sources", []), ["corpora.en.sources: []", "at least 1"]),
    ("a missing reference", put("experiments.first.model", "maxi"), ["experiments.first.model: no block of models is named 'maxi'; there are mini"]),
    ("a reference to nothing at all", put("benchmarks", {}), ["experiments.first.benchmark: no block of benchmarks is named 'speed'; there are no benchmarks at all"]),
    ("a required key that is missing", lambda c: c["experiments"]["first"].pop("corpus"), ["experiments.first.corpus: is missing; add `corpus:` (The text to train on)"]),
    ("a matrix where one is wanted", put("models.mini.each", {"hidden_size": [64, 128]}), ["experiments.first.model: 'mini' is a matrix (mini-hidden_size64, mini-hidden_size128); name one of them"]),
    ("an empty matrix", put("models.mini.each", {"hidden_size": []}), ["models.mini.each.hidden_size: is an empty matrix"]),
    ("a matrix of nothing", put("models.mini.each", {}), ["models.mini.each: {} is not a mapping from keys to lists"]),
    ("a matrix over no list", put("models.mini.each", {"hidden_size": 64}), ["models.mini.each.hidden_size: 64 is not a list"]),
    ("a matrix over an unknown key", put("models.mini.each", {"hiden_size": [64]}), ["models.mini.each.hiden_size: no such key (did you mean 'hidden_size'?)"]),
    ("like itself", put("models.mini.like", "mini"), ["models.mini.like: goes in a circle: mini → mini; take one `like` out"]),
    ("like in a circle of two", put("models", {"mini": {"like": "midi"}, "midi": {"like": "mini"}}), ["mini → midi → mini"]),
    ("like in a circle of three", put("models", {"mini": {"like": "b"}, "b": {"like": "c"}, "c": {"like": "mini"}}), ["mini → b → c → mini"]),
    ("like nobody", put("models.mini.like", "midi"), ["models.mini.like: no block of models is named 'midi' (did you mean 'mini'?)"]),
    ("like a list", put("models.mini.like", ["a"]), ["models.mini.like: no block of models is named ['a']"]),
    ("a size of 0", put("models.mini.hidden_size", 0), ["models.mini.hidden_size: 0", "greater than 0"]),
    ("a negative size", put("tokenizers.bpe.vocab_size", -5), ["tokenizers.bpe.vocab_size: -5", "greater than 0"]),
    ("a vocabulary below its fixed pieces", put("tokenizers.bpe.vocab_size", 100), ["tokenizers.bpe", "vocab_size 100 leaves no room beside the 260 fixed pieces"]),
    ("a sequence of length 0", put("pretraining.short.sequence_length", 0), ["pretraining.short.sequence_length: 0", "greater than or equal to 2"]),
    ("a sequence longer than the model", put("pretraining.short.sequence_length", 256), ["pretraining.short.sequence_length: 256 is more than max_position_embeddings 128 of model 'mini'", "raise the one or lower the other"]),
    ("heads that do not divide the width", put("models.mini.num_attention_heads", 5), ["models.mini", "hidden_size 64 is no multiple of num_attention_heads 5", "take 65"]),
    ("two lengths of training", put("pretraining.short.max_tokens", 10**6), ["pretraining.short", "give one length of training, not several"]),
    ("more warm-up than steps", put("pretraining.short.warmup_steps", 11), ["pretraining.short", "warmup_steps 11 is more than max_steps 10"]),
    ("a share beyond 1", put("corpora.en.splits", {"valid": 0.6, "test": 0.5}), ["corpora.en.splits", "nothing is left to train on; make them smaller"]),
    ("a learning rate of infinity", put("pretraining.short.learning_rate", float("inf")), ["pretraining.short.learning_rate: inf has no stable form"]),
    ("a learning rate that is no number", put("pretraining.short.learning_rate", float("nan")), ["pretraining.short.learning_rate: nan has no stable form"]),
    ("a negative time", put("experiments.first.resources", {"evaluate": {"minutes": -1}}), ["experiments.first.resources.evaluate.minutes: -1"]),
    ("resources of no stage", put("experiments.first.resources", {"training": {"gpus": 1}}), ["experiments.first.resources.training: no stage is named 'training'"]),
    ("a checksum that is too short", put("corpora.en.sources.0.sha256", "abc"), ["corpora.en.sources[0].sha256: 'abc'"]),
    ("an address without a checksum", lambda c: c["corpora"]["en"]["sources"][0].pop("sha256"), ["corpora.en.sources[0]", "has no checksum; give sha256"]),
    ("a file that is not there", put("corpora.en.sources", [{"kind": "file", "path": "absent.txt"}]), ["corpora.en.sources[0].path: source path 'absent.txt': no such file"]),
    ("a glob that finds nothing", put("tasks.reviews.sources", [{"kind": "file", "path": "*.nothing"}]), ["tasks.reviews.sources[0].path: source path '*.nothing'"]),
    ("a file of a name too long", put("corpora.en.sources", [{"kind": "file", "path": "x" * 300}]), ["corpora.en.sources[0].path"]),
    ("a text encoding that is none", put("corpora.en.sources.0.encoding", "utf-99"), ["corpora.en.sources[0].encoding: 'utf-99'", "name one such as 'utf-8'"]),
    ("a name with a space", name_it("experiments", "my run"), ["'my run' can't be a name"]),
    ("a name with a quote", name_it("experiments", "it's"), ["\"it's\" can't be a name"]),
    ("a name with a double quote", name_it("experiments", 'a"b'), ["'a\"b' can't be a name"]),
    ("a name with a dollar", name_it("experiments", "$(touch x)"), ["'$(touch x)' can't be a name"]),
    ("a name with a semicolon", name_it("experiments", "a;b"), ["'a;b' can't be a name"]),
    ("a name that leads out", name_it("experiments", "../up"), ["'../up' can't be a name"]),
    ("a name of a folder", name_it("experiments", "a/b"), ["'a/b' can't be a name"]),
    ("a name in Chinese", name_it("experiments", "三国"), ["'三国' can't be a name"]),
    ("a name with a line break", name_it("experiments", "a\nb"), ["'a\\nb' can't be a name"]),
    ("an empty name", name_it("experiments", ""), ["'' can't be a name"]),
    ("a name too long", name_it("experiments", "x" * 65), ["can't be a name", "64 at most"]),
    ("a name with a leading dot", name_it("experiments", ".hidden"), ["'.hidden' can't be a name"]),
    ("a name like an option", name_it("experiments", "-rf"), ["'-rf' can't be a name"]),
    ("a name that is a number", name_it("experiments", 7), ["7 can't be a name", "quote a number"]),
    ("no experiments", put("experiments", {}), ["there is no experiment, so nothing could run; add a block under `experiments:`"]),
    ("experiments that are empty", put("experiments", None), ["there is no experiment"]),
]  # fmt: skip
TEXTS: list[tuple[str, str | bytes, list[str]]] = [
    ("an empty file", "", ["config.yaml:1: experiments: there is no experiment"]),
    ("a list", "- a\n", ["config.yaml:1: is a list, not a mapping of sections"]),
    ("words", "once upon a time\n", ["config.yaml:1: is text, not a mapping"]),
    ("a double key", "models: {}\nmodels: {}\n", ["config.yaml:2: models: stands twice; keep one of them"]),
    ("a tab", "models:\n\tmini: {}\n", ["config.yaml:2: not YAML", "indent with spaces, not with tabs"]),
    ("an open bracket", "models: [\n", ["config.yaml", "not YAML"]),
    ("an open quote", "models: 'x\n", ["config.yaml", "not YAML"]),
    ("an anchor to itself", "models: &m\n  mini: *m\n", ["config.yaml", "an anchor contains itself; write the block out"]),
    ("an unknown anchor", "models: *m\n", ["config.yaml:1: not YAML: found undefined alias"]),
    ("a Python object", "models: !!python/object/apply:os.system [touch pwned]\n", ["config.yaml:1: not YAML", "tags that make objects are not allowed"]),
    ("bytes that are not UTF-8", b"models:\n  \xff: {}\n", ["config.yaml:2: byte 0xff is not UTF-8; save the file as UTF-8"]),
    ("UTF-16", "models: {}\n".encode("utf-16"), ["config.yaml:1: byte 0xff is not UTF-8"]),
    ("a control character", "models: \x07\n", ["config.yaml:1: not YAML: character", "take it out"]),
    ("half a surrogate pair", 'models: {mini: {architecture: "\\ud800"}}\n', ["config.yaml:1: not YAML: found invalid Unicode character"]),
    ("bytes as a value", "models: {mini: {architecture: !!binary aGk=}}\n", ["models.mini.architecture: b'hi' has no stable form"]),
    ("a set as a value", "models: {mini: {architecture: !!set {a}}}\n", ["models.mini.architecture: {'a'} has no stable form"]),
    ("a key that is no text", "tasks: {t: {label: {by: column, names: {no: negative}}}}\n", ["tasks.t.label.names.no: YAML reads this key as no text; put it in quotes"]),
    ("two documents", "models: {}\n---\ntasks: {}\n", ["config.yaml:2: not YAML"]),
    ("a bomb of aliases", "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(f"{c}: &{c} [{','.join(['*' + p] * 10)}]\n" for p, c in zip("abcdefgh", "bcdefghi", strict=True)), ["aliases unfold to more than"]),
]  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory with a finished experiment; its config file is what a case writes."""
    folder = tmp_path_factory.mktemp("bad input")
    finish(load(folder / "sound", small()), folder / "results")
    return folder


def refused(folder: Path, monkeypatch, capsys, config: Any, *command: str) -> list[str]:
    """The lines of the one error that a command of smelt ends with; what was made stays as it is, in time."""
    path = folder / "config.yaml"
    path.write_bytes(config) if isinstance(config, bytes) else write(folder, config)
    before = tree_digest(folder / "results")
    monkeypatch.chdir(folder)
    started = time.process_time()
    code = cli.main([*command, "--configfile", "config.yaml"])
    seconds = time.process_time() - started
    told = capsys.readouterr()
    assert code == 2
    assert told.out == ""
    assert tree_digest(folder / "results") == before
    assert seconds < CONFIG_SECONDS
    first, *lines = told.err.replace(f"{folder}/", "").splitlines()
    assert first == f"smelt: {'1 problem' if len(lines) == 1 else f'{len(lines)} problems'} in the configuration:"
    return lines


@pytest.mark.parametrize(("edit", "told"), [case[1:] for case in MAPPINGS], ids=[case[0] for case in MAPPINGS])
def test_settings_that_can_not_be_are_one_line_with_file_key_value_and_way_out(made, monkeypatch, capsys, edit, told):
    config = small()
    edit(config)
    lines = refused(made, monkeypatch, capsys, config, "plan")
    assert any(all(part in line for part in told) for line in lines), lines
    assert all(line.startswith("  config.yaml:") for line in lines)
    # Several lines only where a fault has consequences that stand for themselves; never the same twice.
    assert len(set(lines)) == len(lines) <= 4
    assert refused(made, monkeypatch, capsys, config, "explain") == lines


@pytest.mark.parametrize(("text", "told"), [case[1:] for case in TEXTS], ids=[case[0] for case in TEXTS])
def test_a_file_that_can_not_be_is_one_line_with_file_and_line(made, monkeypatch, capsys, text, told):
    lines = refused(made, monkeypatch, capsys, text, "plan")
    assert any(all(part in line for part in told) for line in lines), lines
    assert not (made / "pwned").exists()


def test_a_file_with_many_faults_is_told_whole(made, monkeypatch, capsys):
    config = small()
    # Every edit that keeps the others' keys in place.
    chosen = ["an unknown section", "an unknown key", "a sequence of length 0", "a file that is not there", "a kind that is none", "a vocabulary below its fixed pieces"]  # fmt: skip
    cases = {name: (edit, told) for name, edit, told in MAPPINGS}
    for name in chosen:
        cases[name][0](config)
    lines = refused(made, monkeypatch, capsys, config, "plan")
    for name in chosen:
        assert any(all(part in line for part in cases[name][1]) for line in lines), (name, lines)
    assert len(lines) == len(chosen)


@pytest.mark.parametrize(("name", "told"), [("absent.yaml", "no such file; give an existing one"), ("results", "is a folder; give a YAML file")])  # fmt: skip
def test_a_configuration_that_is_no_file_is_told(made, monkeypatch, capsys, name, told):
    monkeypatch.chdir(made)
    assert cli.main(["plan", "--configfile", name]) == 2
    assert f"{name}: {told}" in capsys.readouterr().err


def test_a_configuration_that_may_not_be_read_is_told(made, monkeypatch, capsys):
    monkeypatch.chdir(made)
    path = write(made, small(), "secret.yaml")
    path.chmod(0)
    if os.access(path, os.R_OK):
        path.unlink()
        pytest.skip("whoever runs this may read everything")
    assert cli.main(["plan", "--configfile", "secret.yaml"]) == 2
    assert "secret.yaml: may not be read; check its permissions" in capsys.readouterr().err


def test_without_a_configuration_the_place_where_it_is_looked_for_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "default_configfile", lambda: Path("config/config.yaml"))
    assert cli.main(["plan"]) == 2
    assert "config/config.yaml: no such file; give an existing one with --configfile" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["explain", "frist"], "'frist' is no experiment (first), no stage (corpus,"),
        (["plan", "frist"], "no experiment is named 'frist'; the configuration has first"),
        (["watch", "frist", "--once"], "no experiment is named 'frist'; the configuration has first"),
        (["figures", "frist"], "run snakemake first, or name another"),
        (["plan", "--directory", "absent"], "--directory absent: no such folder"),
        (["verify", "absent"], "absent"),
    ],
)
def test_a_tool_that_is_asked_for_what_is_not_there_says_what_is(made, monkeypatch, capsys, command, told):
    monkeypatch.chdir(made)
    given = [] if command[0] == "verify" else ["--configfile", str(write(made, small()))]
    assert cli.main([*command, *given]) in (1, 2)
    shown = capsys.readouterr()
    assert told in shown.err + shown.out


def smelt(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return _run([sys.executable, "-m", "smelt", *arguments], folder)


def snakemake(folder: Path, *arguments: str, prefix: list[str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile"), "--profile", str(ROOT / "profiles" / "local")]  # fmt: skip
    return _run([*(prefix or []), *command, *arguments], folder)


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "workflow")}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, env=environment)


def one_error(done: subprocess.CompletedProcess[str], code: int) -> str:
    """What smelt told; nothing else of the kind is on the terminal."""
    shown = done.stdout + done.stderr
    assert done.returncode == code, shown
    assert "Traceback" not in shown
    assert 'File "' not in shown
    assert shown.count("smelt: ") == 1
    return shown[shown.index("smelt: ") :]


def test_the_command_itself_takes_no_longer_than_three_seconds(made):
    write(made, small() | {"modells": {}})
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = smelt(made, "plan", "--configfile", "config.yaml")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Of the processor: other work on the machine is no fault of the command.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < CONFIG_SECONDS
    assert one_error(done, 2).splitlines() == [
        "smelt: 1 problem in the configuration:",
        f"  {made}/config.yaml:46: modells: no such section (did you mean 'models'?); the sections are corpora, tokenizers, models, pretraining, tasks, finetuning, benchmarks, experiments",
    ]  # fmt: skip


SNAKEMAKE: list[tuple[str, Any, list[str], int, list[str]]] = [
    ("several faults", small() | {"modells": {}, "benchmarks": {}}, ["-n"], 2, ["2 problems", "modells: no such section", "there are no benchmarks at all"]),
    ("a double key", "models: {}\nmodels: {}\n", ["-n"], 2, ["config.yaml:2: models: stands twice"]),
    ("no experiments", small() | {"experiments": {}}, ["-n"], 2, ["there is no experiment"]),
    ("settings on the command line", small(), ["-n", "--config", "seed=3"], 1, ["--config seed=3: settings come from files", "give it as the last --configfile"]),
    ("a node that no experiment has", small(), ["-n", "results/corpus/en-0123456789/manifest.json", "--"], 1, ["results/corpus/en-0123456789: no experiment of the configuration has this node; `smelt plan` lists them"]),
    ("an experiment that is not there", small(), ["-n", "results/experiments/frist/experiment.json", "--"], 1, ["no experiment is named 'frist' (did you mean 'first'?)"]),
]  # fmt: skip


@pytest.mark.parametrize(("config", "arguments", "code", "told"), [case[1:] for case in SNAKEMAKE], ids=[case[0] for case in SNAKEMAKE])  # fmt: skip
def test_snakemake_ends_with_the_same_one_error(made, config, arguments, code, told):
    path = write(made, config)
    before = tree_digest(made / "results")
    shown = one_error(snakemake(made, "--configfile", str(path), *arguments), code)
    assert all(part in shown for part in told)
    assert tree_digest(made / "results") == before


@pytest.mark.parametrize(("name", "content"), [("absent.yaml", None), ("latin.yaml", b"\xff"), ("list.yaml", b"- a\n")])
def test_what_snakemake_itself_can_not_read_ends_it_with_an_error_and_alters_nothing(made, name, content):
    """Snakemake reads --configfile before any code of a workflow: its words, in the first two cases after its traceback."""
    if content is not None:
        (made / name).write_bytes(content)
    before = tree_digest(made / "results")
    done = snakemake(made, "-n", "--configfile", name)
    assert done.returncode != 0
    last = done.stdout.strip().splitlines()[-1]  # with -n, Snakemake tells everything there
    assert any(part in last for part in (name, "can't decode byte 0xff", "keys at top level")), done.stdout
    assert tree_digest(made / "results") == before
    # smelt says it with file and line, for whoever asks.
    assert one_error(smelt(made, "plan", "--configfile", name), 2).splitlines()[1].startswith(f"  {made}/{name}:")


def test_results_that_are_a_file_are_told(tmp_path):
    write(tmp_path, "mine", "results")
    done = snakemake(tmp_path, "--configfile", str(write(tmp_path, small())))
    assert f"{tmp_path}/results: is a file, but a folder of this name is wanted; move it away" in one_error(done, 1)
    assert (tmp_path / "results").read_text() == "mine"


@pytest.fixture
def read_only(tmp_path: Path) -> list[str]:
    """Words before a command that make `results` in its working directory a place that can't be written, even for root."""
    script = 'mount --bind results results && mount -o remount,ro,bind results && exec "$@"'
    prefix = ["unshare", "--mount", "--map-root-user", "sh", "-c", script, "sh"]
    (tmp_path / "probe" / "results").mkdir(parents=True)
    if not shutil.which("unshare") or subprocess.run([*prefix, "true"], cwd=tmp_path / "probe", capture_output=True).returncode:  # fmt: skip
        pytest.skip("mounts can't be made here")
    return prefix


def test_results_that_can_not_be_written_are_told_before_anything_runs(made, read_only):
    before = tree_digest(made / "results")
    done = snakemake(made, "--configfile", str(write(made, small())), "--forceall", prefix=read_only)
    assert f"{made}/results: can't be written; mend its permissions or mount, or use another --directory" in one_error(done, 1)  # fmt: skip
    assert tree_digest(made / "results") == before


def test_looking_at_results_that_can_not_be_written_works(made, read_only):
    done = snakemake(made, "--configfile", str(write(made, small())), "-n", prefix=read_only)
    assert done.returncode == 0
    assert "Nothing to be done" in done.stdout


def test_a_stage_that_can_not_write_its_node_says_so_in_one_line(made, read_only):
    node = next((made / "results" / "task").iterdir())
    spec = '{"stage":"task","settings":{},"upstream":{},"code":"x"}'
    command = [*read_only, sys.executable, "-m", "smelt", "task", "--spec", spec, "--out", f"results/task/{node.name}/manifest.json"]  # fmt: skip
    before = tree_digest(made / "results")
    assert "Read-only file system; mount it so that it can be written" in one_error(_run(command, made), 74)
    assert tree_digest(made / "results") == before


def test_a_second_snakemake_in_a_folder_is_refused_with_host_and_pid(made):
    (made / ".snakemake").mkdir(exist_ok=True)
    with (made / ".snakemake" / "smelt.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        held.write("host here, pid 4711")
        held.flush()
        path = write(made, small())
        shown = one_error(snakemake(made, "--configfile", str(path), "--forceall"), 73)
        assert f"{made}: a snakemake is at work here (host here, pid 4711); wait for it, end it, or use another --directory" in shown  # fmt: skip
        # Looking does not disturb it.
        assert snakemake(made, "--configfile", str(path), "-n").returncode == 0


@pytest.mark.parametrize("file", ["manifest.json", "provenance.json"])
@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 1}'])
def test_a_broken_record_of_a_node_is_told_as_a_reason_to_run_it(made, monkeypatch, capsys, file, content):
    """Not an error: the node is made again, and so are those that follow."""
    path = next((made / "results" / "tokenizer").iterdir()) / file
    whole = path.read_text()
    path.write_text(content)
    try:
        monkeypatch.chdir(made)
        write(made, small())
        assert cli.main(["explain", "--configfile", "config.yaml"]) == 0
        shown = capsys.readouterr().out
        assert "tokenizer bpe-" in shown
        assert "provenance.json: null → missing or unreadable" in shown or "manifest.json" in shown
        assert path.read_text() == content
    finally:
        path.write_text(whole)


@pytest.mark.slow
def test_files_and_folders_of_any_name_work_through_snakemake_and_shell(tmp_path):
    folder = tmp_path / 'it\'s a "folder"; $(touch pwned) 文件'
    names = ["with space.txt", "it's.txt", 'double"quote.txt', "$(touch pwned).txt", "semi;colon.txt", "三国演义.txt", "{braces}.txt", "-n.txt", "back\\slash.txt"]  # fmt: skip
    config = small()
    config["corpora"]["en"] = {
        "sources": [{"kind": "file", "path": f"texts/{name}"} for name in names],
        "format": "lines",
        "splits": {"valid": 0.2, "test": 0.2},
    }
    for position, name in enumerate(names):
        lines = [f"Line {line} of text {position} tells of {'abcdefghijklmnopqrstuvwxyz'[line]}." for line in range(20)]
        write(folder / "texts", "\n".join(lines) + "\n", name)
    path = write(folder, config, "config it's.yaml")
    (target,) = [ref for ref in _nodes(folder, path) if ref.startswith("corpus/")]
    done = snakemake(folder, "--configfile", str(path), "--", f"results/{target}/manifest.json")
    assert done.returncode == 0, done.stderr
    assert (folder / "results" / target / "train.jsonl.zst").exists()
    assert not list(tmp_path.rglob("pwned"))


def _nodes(folder: Path, config: Path) -> list[str]:
    from smelt.plan.plan import Plan

    before = Path.cwd()
    os.chdir(folder)
    try:
        return list(Plan.load([config]).nodes)
    finally:
        os.chdir(before)
