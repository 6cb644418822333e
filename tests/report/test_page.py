"""The page: well-formed, self-contained, true to its nodes, safe with any text, the same for the same nodes."""

import json
import re
from itertools import pairwise

import pytest

from made_experiment import HOSTILE, MAJORITY, TFIDF, UNIGRAM, Made, make_experiment, make_pretrained
from page_reader import read_page
from smelt.plan.errors import DataError
from smelt.plan.manifest import to_json
from smelt.report.numbers import value_of

REPORT = {"experiment": "quickstart", "report": {}}


def section(page, title):
    return next(tag for tag in page.root.all("section") if any(heading.words == title for heading in tag.all("h2")))


def test_every_tag_is_closed_in_order(page):
    assert page.problems == []
    assert page.doctype == "DOCTYPE html"


def test_a_screen_reader_finds_one_title_and_no_gap_between_heading_levels(page):
    levels = [int(tag.name[1]) for tag in page.root.all() if re.fullmatch("h[1-6]", tag.name)]
    assert levels.count(1) == 1 and levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert page.root.all("html")[0].attributes["lang"] == "en"


def test_every_picture_says_in_words_what_it_shows(page):
    pictures = page.root.all("svg")
    assert len(pictures) == 5  # pipeline, loss, learning rate, loss of two tasks
    assert all(len(tag.attributes["aria-label"]) > 30 for tag in pictures)


def test_every_scrolled_table_can_be_reached_by_keyboard_and_has_a_name(page):
    scrolled = [tag for tag in page.root.all("div") if "scroll" in tag.classes]
    assert scrolled
    assert all(tag.attributes["tabindex"] == "0" and tag.attributes["aria-label"] for tag in scrolled)
    assert all(any("scroll" in above.classes for above in ancestors(table)) for table in page.root.all("table"))


def ancestors(tag):
    while tag.parent is not None:
        tag = tag.parent
        yield tag


def test_nothing_is_loaded_from_elsewhere_and_nothing_runs(page):
    names = {tag.name for tag in page.root.all()}
    assert not names & {"script", "link", "img", "iframe", "object", "embed", "form", "base"}
    for tag in page.root.all():
        assert not any(name.startswith("on") or name in ("src", "srcset", "action") for name in tag.attributes)
        assert tag.attributes.get("href", "#").startswith("#")
    style = page.root.all("style")[0].text
    assert "@import" not in style and "url(" not in style
    policy = next(tag for tag in page.root.all("meta") if tag.attributes.get("http-equiv") == "Content-Security-Policy")
    assert policy.attributes["content"].startswith("default-src 'none'")


def test_every_link_of_the_page_leads_somewhere(page):
    ids = [tag.attributes["id"] for tag in page.root.all() if "id" in tag.attributes]
    assert len(ids) == len(set(ids))
    targets = {tag.attributes["href"][1:] for tag in page.root.all("a")}
    assert targets <= set(ids)


def test_every_figure_says_which_node_it_is_from_and_that_node_exists(page, made):
    anchors = {f"node-{m.stage}-{m.id}" for m in made.nodes.values()}
    blocks = page.root.all("figure")
    assert len(blocks) > 20
    for block in blocks:
        named = {link.attributes["href"][1:] for link in block.all("a")}
        assert named and named <= anchors, block.words[:80]
    cards = next(tag for tag in page.root.all("ul") if "headlines" in tag.classes).all("li")
    assert len(cards) == 4
    assert all(card.all("a")[0].attributes["href"][1:] in anchors for card in cards)


def test_every_figure_of_the_summary_stands_on_the_page(page, report):
    figures = json.loads(report.file("summary.json").read_text(encoding="utf-8"))["figures"]
    text = page.root.all("main")[0].words
    assert len(figures) > 20
    for figure in figures:
        # In a table the unit stands in the heading.
        shown = f"{figure['value']:.4f}" if figure.get("interval") else value_of(figure)
        assert shown in text, figure


def test_the_summary_lists_every_figure_of_every_node_with_its_stage_and_id(report, made):
    summary = json.loads(report.file("summary.json").read_text(encoding="utf-8"))
    assert summary["experiment"] == "quickstart"
    expected = [
        (m.stage, m.id, f["metric"], f["split"], f["value"], f["unit"])
        for m in made.nodes.values()
        for f in [*m.facts.get("figures", []), *m.provenance["measurements"].get("figures", [])]
    ]
    found = [(f["stage"], f["node"], f["metric"], f["split"], f["value"], f["unit"]) for f in summary["figures"]]
    assert sorted(found) == sorted(expected)
    assert report.facts["figures_collected"] == len(expected)
    reference = [f.get("reference") for f in summary["figures"]]
    assert {UNIGRAM, MAJORITY, TFIDF} <= set(reference)


def test_the_paragraph_at_the_top_sets_each_result_beside_its_references(page):
    lead = next(tag for tag in page.root.all("p") if "lead" in tag.classes).words
    assert "106 documents, 2.89 MB" in lead
    assert "2.246 bits per byte (unigram model 3.381)" in lead
    assert "67.1 % accuracy (majority class 50.4 %; TF-IDF + logistic regression 80.1 %" in lead
    assert "the same network from random weights 66.0 %)" in lead


def test_a_table_of_scores_holds_model_scratch_and_references_with_their_intervals(page):
    table = next(
        tag
        for tag in section(page, "Task: reviews").all("table")
        if "accuracy" in tag.words and "macro-F1" in tag.words
    )
    rows = [[cell.words for cell in row.children] for row in table.all("tr")]
    assert rows[0] == ["", "accuracy", "macro-F1", "from"]
    names = [row[0] for row in rows[1:]]
    scratch = "sentiment-scratch (the same network from random weights)"
    assert names == ["sentiment", scratch, MAJORITY, TFIDF]
    assert rows[1][1] == "0.6713 [0.642, 0.700]"
    assert rows[4][2] == "0.8011"


def test_the_confusion_matrix_shows_counts_and_shares_of_each_row(page):
    (matrix,) = [tag for tag in page.root.all("table") if "confusion" in tag.classes]
    cells = [cell.words for cell in matrix.all("td")]
    # 331 of 331 + 168 is 66.3 %, 345 of 163 + 345 is 67.9 %
    assert cells == ["331 66.3 %", "168 33.7 %", "163 32.1 %", "345 67.9 %"]


def test_the_benchmark_table_keeps_its_notes_and_ratios(page):
    text = section(page, "Speed and memory").words
    assert "× 0.0510" in text and "bf16 is computed in software on this CPU" in text and "Device: CPU." in text


def test_licences_and_what_was_dropped_are_told(page):
    text = section(page, "Data").words
    assert "gensim-4.4.0.tar.gz CC BY-SA 3.0" in text
    assert "redirect 94" in text and "106 documents of 206 were kept" in text


def test_logins_in_addresses_are_shown_nowhere(html):
    assert "https://example.org/reviews.tsv" in html
    assert "secret" not in html.replace("secret-host", "")


def test_the_host_is_not_on_the_page(html):
    assert "secret-host" not in html


@pytest.mark.parametrize("text", [HOSTILE, "<!-- <svg onload=alert(1)>", "&lt;b&gt; ]]> \u202e {% raw %}"])
def test_text_of_the_data_can_not_become_markup(results, reported, text):
    made = make_experiment(results.root, said=text, licence=text)
    facts = made.nodes["sentiment-evaluate"].data
    facts["facts"]["confusion"]["labels"] = [text, "b"]
    facts["facts"]["figures"].append({"metric": text, "split": text, "value": 1.0, "unit": text, "reference": text})
    made.nodes["sentiment-evaluate"].path.write_text(to_json(facts), encoding="utf-8")
    page = read_page(reported(made, title=text, introduction=text))
    assert page.problems == []
    assert not {tag.name for tag in page.root.all()} & {"script", "img"}
    assert not [name for tag in page.root.all() for name in tag.attributes if name.startswith("on")]
    said = [tag.text for tag in page.root.all("span") if "said-text" in tag.classes]
    assert text in said
    assert page.root.all("h1")[0].text == text
    assert text in [cell.text.strip() for cell in page.root.all("td")]  # the licence
    assert page.root.all("title")[0].text == f"{text} · smelt report"


def test_an_experiment_without_fine_tuning_or_benchmark_has_no_empty_sections(results, reported):
    page = read_page(reported(make_pretrained(results.root)))
    assert page.problems == []
    titles = [tag.words for tag in page.root.all("h2")]
    assert titles == [
        "Pipeline", "Data", "Tokens", "Language model", "Where the figures come from", "Settings and files",
    ]  # fmt: skip
    assert all(tag.all("figure") for tag in page.root.all("section")[:-1])


def test_a_corpus_alone_makes_a_page(results, reported):
    made = Made(results.root)
    facts = {name: {"train": 3} for name in ("documents", "words", "characters", "bytes")}
    made.add("corpus", "corpus", "tiny", {"sources": [], "seed": 1}, {**facts, "dropped": {}})
    page = read_page(reported(made))
    assert page.problems == []
    assert [tag.words for tag in page.root.all("h2")][:2] == ["Pipeline", "Data"]


def test_title_and_introduction_come_from_the_settings(results, reported):
    page = read_page(reported(make_pretrained(results.root), title="First try", introduction="Look at the loss."))
    assert page.root.all("h1")[0].words == "First try"
    assert next(tag for tag in page.root.all("p") if "introduction" in tag.classes).words == "Look at the loss."


def test_equal_nodes_give_equal_bytes_wherever_they_lie(tmp_path, results):
    results.root = tmp_path / "here"
    first = results.run("report", "q", REPORT, nodes=list(make_experiment(results.root, seed=1).nodes.values()))
    results.root = tmp_path / "far" / "away"
    shuffled = list(make_experiment(results.root, seed=2).nodes.values())[::-1]
    second = results.run("report", "q", REPORT, nodes=shuffled)
    for name in ("report.html", "summary.json"):
        assert first.file(name).read_bytes() == second.file(name).read_bytes()
    assert str(tmp_path) not in first.file("report.html").read_text(encoding="utf-8")


def test_a_curve_that_is_cut_off_is_named_with_its_line(results, reported):
    made = make_pretrained(results.root)
    curve = made.nodes["pretrain"].file("curve.jsonl")
    content = curve.read_bytes()
    curve.write_bytes(content[:-10] + b"x" * 10)  # the size stays, so that only the content is wrong
    with pytest.raises(DataError, match=r"curve\.jsonl: line 606: not JSON"):
        reported(made)
