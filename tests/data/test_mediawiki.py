"""MediaWiki dumps: articles only, what a reader sees, nobody's name."""

import io
from collections import Counter

import pytest

from smelt.data.archives import Entry
from smelt.data.formats import mediawiki
from smelt.data.wikitext import plain_text
from smelt.plan.errors import DataError

HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/" version="0.10" xml:lang="de">
  <siteinfo><sitename>Wiki</sitename><dbname>dewiki</dbname><base>x</base><generator>x</generator><case>first-letter</case>
    <namespaces><namespace key="0" case="first-letter" /><namespace key="1" case="first-letter">Diskussion</namespace>
    <namespace key="6" case="first-letter">Datei</namespace><namespace key="14" case="first-letter">Kategorie</namespace></namespaces>
  </siteinfo>
"""


def page(number: int, title: str, *texts: str, namespace: int = 0, redirect: str = "") -> str:
    revisions = "".join(
        f"<revision><id>{number}{turn}</id><timestamp>2016-05-0{turn + 1}T10:00:00Z</timestamp>"
        f"<contributor><username>Someone Private</username><id>7</id></contributor><comment>by Someone Private</comment>"
        f"<model>wikitext</model><format>text/x-wiki</format><text xml:space='preserve'>{text}</text><sha1>x</sha1></revision>"
        for turn, text in enumerate(texts)
    )
    return f"<page><title>{title}</title><ns>{namespace}</ns><id>{number}</id>{redirect}{revisions}</page>\n"


def read(xml: str | bytes) -> list[tuple[str, dict[str, object], str | None]]:
    data = xml if isinstance(xml, bytes) else xml.encode()
    return [tuple(record) for record in mediawiki.read(Entry("dump.xml", "dump.xml", io.BytesIO(data)), None)]


def test_articles_are_read_and_redirects_and_other_pages_counted() -> None:
    found = read(
        HEAD
        + page(1, "Eins", "alt", "der Text")
        + page(2, "Zwei", "#redirect [[Eins]]", redirect='<redirect title="Eins" />')
        + page(3, "Diskussion:Eins", "ich finde", namespace=1)
        + page(4, "Leer", "")
        + "</mediawiki>"
    )
    assert [(place, dropped) for place, _, dropped in found] == [
        ("dump.xml#1", None),
        ("dump.xml#2", "redirect"),
        ("dump.xml#3", "page outside namespace 0"),
        ("dump.xml#4", None),
    ]
    assert found[0][1] == {"title": "Eins", "wikitext": "der Text", "prefixes": ["Datei", "Kategorie"]}
    assert "Private" not in str(found)


def test_a_dump_that_is_cut_off_is_told_with_the_last_page() -> None:
    whole = HEAD + page(1, "Eins", "Text") + page(2, "Zwei", "Text") + "</mediawiki>"
    with pytest.raises(DataError, match=r"dump\.xml: cut off or damaged after the page 'Eins'"):
        read(whole[: whole.index("Zwei")])


@pytest.mark.parametrize(
    "data", [b"", b"plain text", b"<html></html>", b"<!DOCTYPE x [<!ENTITY a 'b'>]><mediawiki>&a;</mediawiki>"]
)
def test_what_is_no_dump_is_refused(data: bytes) -> None:
    with pytest.raises(DataError, match=r"does not begin as a MediaWiki XML dump does"):
        read(data)


def text(wikitext: str, *drop: str) -> str:
    return plain_text(wikitext, ["Datei", "Kategorie"], list(drop))[0]


@pytest.mark.parametrize(
    ("wikitext", "expected"),
    [
        ("'''Bold''' and ''it'' and '''''both'''''", "Bold and it and both"),
        ("a [[link]] and [[Page#part|another]]s", "a link and anothers"),
        ("see [http://x.org the site], http://y.org and [http://z.org]", "see the site, http://y.org and"),
        ("[[File:A.jpg|thumb|A [[nested]] caption]]Text", "Text"),
        ("[[Datei:A.jpg|mini|Bild]]Text[[Kategorie:X]]", "Text"),
        ("the [[:Category:Cats]] and [[fr:Chat]]", "the Category:Cats and"),
        ("[[Star Trek: Picard]]", "Star Trek: Picard"),
        ("a{{cite|x={{y|z}}}}b {{{1|default}}}c", "ab c"),
        ("text<ref name=a>note</ref> more<ref name=a/> end<!-- hidden -->.", "text more end."),
        ("before\n{| class=wikitable\n| cell\n{|\n| inner\n|}\n|}\nafter", "before\n\nafter"),
        ("x&nbsp;y &amp; z &#8212; &lt;b&gt;", "x y & z — <b>"),
        ("H<sub>2</sub>O is <math>x^2</math> wet<br/>line", "H2O is wet\nline"),
        ("* one\n* two\n** three\n# four", "one\ntwo\nthree\nfour"),
        ("Achilles ({{lang|grc}}; , ''Akhilleus'', ) was ({{x}}) a hero", "Achilles (Akhilleus) was a hero"),
        ("中文（{{lang|en}}，）维基", "中文维基"),
        ("__NOTOC__text", "text"),
        ("unclosed <!-- comment", "unclosed"),
        ("<nowiki>[[x]]</nowiki>", "[[x]]"),
    ],
)
def test_wikitext_becomes_what_a_reader_sees(wikitext: str, expected: str) -> None:
    assert text(wikitext) == expected


def test_headings_stand_alone_and_sections_without_text_have_none() -> None:
    article = "Lead.\n== One ==\ntext\n=== Deep ===\nmore\n== Empty ==\n\n== Last ==\nend"
    assert text(article) == "Lead.\n\nOne\n\ntext\n\nDeep\n\nmore\n\nLast\n\nend"


def test_sections_to_drop_go_with_all_below_them() -> None:
    article = "Lead.\n== references ==\nr\n=== Books ===\nb\n== Kept ==\nk"
    assert text(article, "References") == "Lead.\n\nKept\n\nk"
    assert plain_text(article, [], ["References"])[1] == Counter({"sections left out": 1})


def test_what_was_left_out_is_counted() -> None:
    _, counts = plain_text("{{a}}{{b|{{c}}}} [[File:x]] <ref>n</ref>\n{|\n|x\n|}", [], [])
    assert counts == {
        "templates left out": 3,
        "links to files, categories and other languages left out": 1,
        "notes, formulas and galleries left out": 1,
        "tables left out": 1,
    }
