"""The table of figures on the terminal."""

import io
import json

import pytest
from rich.console import Console

from smelt.plan.errors import DataError
from smelt.report.terminal import compared, show


def printed(path, width=80) -> str:
    out = io.StringIO()
    show(path, Console(file=out, width=width, force_terminal=False, color_system=None))
    return out.getvalue()


def test_a_reader_sees_each_result_and_below_it_its_references(report):
    lines = [" ".join(line.split()) for line in printed(report.file("summary.json")).splitlines()]
    accuracy = lines.index("evaluate sentiment accuracy 0.6713")
    assert lines[accuracy + 1] == "majority class 0.5043"
    assert "pretrain gpt2-mini loss, nats per token (valid) 4.208" in lines
    assert "evaluate gpt2-mini bits per byte 2.246" in lines
    assert "evaluate sentiment-scratch accuracy 0.6604" in lines
    assert sum("majority class" in line for line in lines) == 2  # accuracy and macro-F1, not again for the sibling


def test_figures_of_data_are_counted_and_their_place_named(report):
    lines = printed(report.file("summary.json")).splitlines()
    # tokens per word and unknown rate of the tokenizer, the logit difference of the conversion
    assert lines[-2] == "and 3 of data, tokens and conversion, in summary.json and in the report"


def test_it_ends_with_the_path_of_the_page_in_one_piece(report):
    last = printed(report.file("summary.json"), width=40).splitlines()[-1]
    assert last == f"report: {report.directory / 'report.html'}"


def test_the_path_is_relative_where_the_page_lies_below_the_working_folder(report, monkeypatch):
    monkeypatch.chdir(report.directory.parent)
    assert printed(report.file("summary.json")).splitlines()[-1] == f"report: {report.id}/report.html"


def test_names_with_brackets_are_printed_and_not_taken_for_styles(tmp_path):
    figures = [
        {"stage": "evaluate", "node": "[red]x-1", "metric": "[bold]m", "split": "test", "value": 1.0, "unit": ""}
    ]
    path = tmp_path / "summary.json"
    path.write_text(json.dumps({"experiment": "[link=x]", "figures": figures}), encoding="utf-8")
    out = printed(path)
    assert "[red]x" in out and "[bold]m" in out and "[link=x]" in out


def test_a_reference_without_a_model_beside_it_is_not_lost():
    figure = {
        "stage": "evaluate",
        "node": "a-1",
        "metric": "m",
        "split": "test",
        "value": 1.0,
        "unit": "",
        "reference": "r",
    }
    assert compared([figure]) == [(figure, [])]


@pytest.mark.parametrize("content", [None, "{", '["a"]', '{"figures": []}', b"\xff"])
def test_a_missing_or_broken_summary_is_one_clear_error(tmp_path, content):
    path = tmp_path / "summary.json"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError, match=r"summary\.json: (there is no such|not a) summary.*run snakemake"):
        show(path)
