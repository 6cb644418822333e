"""The quickstart, truly: real text from the package index, all stages, the report, the archive."""

import json
import math
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from checkouts import Run
from smelt.plan.plan import STAGES

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


@pytest.fixture(scope="session")
def view(quickstart: Run) -> Path:
    return quickstart.checkout.results / "experiments" / "quickstart"


@pytest.fixture(scope="session")
def figures(view: Path) -> list[dict[str, Any]]:
    summary = json.loads((view / "summary.json").read_text(encoding="utf-8"))
    assert summary["experiment"] == "quickstart"
    return summary["figures"]


def test_every_stage_ran_and_left_what_it_lists(quickstart: Run, view: Path) -> None:
    nodes = json.loads((view / "experiment.json").read_text())["nodes"]
    assert {node.partition("/")[0] for node in nodes} == set(STAGES)
    done = quickstart.checkout.smelt("verify", str(view))
    assert "problem" not in done.stdout


def test_the_run_ends_with_the_path_of_the_report(quickstart: Run) -> None:
    assert "results/experiments/quickstart/report.html" in quickstart.printed


def test_every_figure_is_finite_and_of_a_node_that_is_there(quickstart: Run, figures: list[dict[str, Any]]) -> None:
    for each in figures:
        assert math.isfinite(each["value"]), each
        assert {"stage", "node", "metric", "split", "value", "unit"} <= set(each)
        assert (quickstart.checkout.results / each["stage"] / each["node"] / "manifest.json").is_file(), each
    measured = {"tokenizer", "pretrain", "finetune", "evaluate", "benchmark"}
    assert measured <= {each["stage"] for each in figures}


def test_the_language_model_beats_the_unigram_model(figures: list[dict[str, Any]]) -> None:
    for metric in ("perplexity", "bits_per_byte", "word_perplexity"):
        model, unigram = (value(figures, "gpt2-quick-", metric, reference) for reference in (None, "unigram model"))
        assert model < unigram, metric
    # Text of which nothing is known takes 8 bits a byte; the best compressors of English take about 2.
    assert 1.5 < value(figures, "gpt2-quick-", "bits_per_byte", None) < 3.4


def test_the_classifier_beats_the_majority_class(figures: list[dict[str, Any]]) -> None:
    node = r"sentiment-[0-9a-f]{10}"
    assert value(figures, node, "accuracy", None) > value(figures, node, "accuracy", "majority class")
    assert value(figures, node, "accuracy", "TF-IDF + logistic regression") > 0.7
    assert value(figures, r"sentiment-scratch-", "accuracy", None) > 0


def test_the_dialogue_model_answers(quickstart: Run, figures: list[dict[str, Any]]) -> None:
    assert value(figures, "small-talk-", "answer_latency_p50", None) > 0
    facts = json.loads((quickstart.checkout.node("evaluate/small-talk") / "manifest.json").read_text())["facts"]
    assert facts["samples"]


def test_the_report_shows_the_figures_and_stands_alone(view: Path, figures: list[dict[str, Any]]) -> None:
    page = (view / "report.html").read_text(encoding="utf-8")
    for node in {each["node"] for each in figures}:
        assert node in page
    assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:)?//", page)
    assert page.count("<svg") >= 2
    for words in ("majority class", "TF-IDF", "unigram", "bits per byte"):
        assert words.lower() in page.lower(), words


def test_a_second_call_has_nothing_to_do(quickstart: Run) -> None:
    checkout = quickstart.checkout
    before = {path: path.stat().st_mtime_ns for path in checkout.results.glob("*/*/manifest.json")}
    done = checkout.snakemake()
    assert "Nothing to be done" in done.stdout + done.stderr
    assert json.loads(checkout.smelt("explain", "--json").stdout) == []
    assert {path: path.stat().st_mtime_ns for path in checkout.results.glob("*/*/manifest.json")} == before


def test_the_figures_are_shown_on_the_terminal(quickstart: Run) -> None:
    shown = quickstart.checkout.smelt("figures", "quickstart").stdout
    assert "perplexity" in shown
    assert "accuracy" in shown


def test_the_archive_holds_and_an_altered_byte_is_told(quickstart: Run, view: Path, tmp_path: Path) -> None:
    packed = view / "quickstart.tar.zst"
    quickstart.checkout.smelt("verify", str(packed))
    altered = tmp_path / "altered.tar.zst"
    data = bytearray(packed.read_bytes())
    data[len(data) // 2] ^= 1
    altered.write_bytes(data)
    assert quickstart.checkout.smelt("verify", str(altered), check=False).returncode == 1


def test_the_code_and_configuration_in_the_archive_plan_the_nodes_that_are_there(
    quickstart: Run, unpacked: Path
) -> None:
    """Were a key lost or an id or a digest another, something would have to run."""
    results = quickstart.checkout.path
    command = [sys.executable, "-m", "smelt", "explain", "--json", "--configfile", unpacked / "configuration.yaml"]
    environment = {**os.environ, "PYTHONPATH": str(unpacked / "code" / "workflow")}
    done = subprocess.run(
        [*command, "--directory", results], env=environment, cwd=unpacked, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []


@pytest.fixture(scope="session")
def unpacked(view: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The archive, unpacked."""
    folder = tmp_path_factory.mktemp("unpacked")
    with (
        (view / "quickstart.tar.zst").open("rb") as file,
        zstandard.ZstdDecompressor().stream_reader(file) as stream,
        tarfile.open(fileobj=stream, mode="r|") as archive,
    ):
        archive.extractall(folder, filter="data")
    return folder / "quickstart"


def value(figures: list[dict[str, Any]], node: str, metric: str, reference: str | None) -> float:
    """Of an evaluation on the test split."""
    (found,) = [
        each["value"]
        for each in figures
        if (each["stage"], each["split"], each["metric"]) == ("evaluate", "test", metric)
        and re.match(node, each["node"])
        and each.get("reference") == reference
    ]
    return found
