"""MediaWiki XML dumps: the articles' titles and wikitext, nothing of who wrote them.

Pages outside namespace 0 and redirects are left out and counted. The text is made of the wikitext in a second step
(`smelt.data.wikitext`), since it takes nearly all the time and can run on several cores.
"""

import logging
from collections.abc import Iterator
from typing import Any
from xml.etree.ElementTree import ParseError

from smelt.data.archives import Entry
from smelt.data.compression import PEEKED, peekable
from smelt.data.formats.record import Record
from smelt.plan.errors import DataError

FILES_AND_CATEGORIES = (6, 14)
"""Namespaces whose links show no text of the article."""


def read(entry: Entry, settings: Any) -> Iterator[Record]:
    """Each page: `title`, `wikitext` of its last revision, `prefixes` of links to files and categories in this wiki's language."""
    import mwxml
    from mwxml.errors import MalformedXML

    logging.getLogger("mwxml").setLevel(
        logging.ERROR
    )  # it warns of every element that newer dumps have and it does not know
    stream = peekable(entry.stream)
    start = stream.peek(PEEKED)[:PEEKED]
    if b"<mediawiki" not in start or b"<!DOCTYPE" in start:
        raise DataError(f"{entry.place}: does not begin as a MediaWiki XML dump does; check `format` and `member`")
    page = None
    try:
        dump = mwxml.Dump.from_file(stream)
        prefixes = [
            space.name for space in dump.site_info.namespaces or [] if space.id in FILES_AND_CATEGORIES and space.name
        ]
        for page in dump.pages:
            yield _record(entry, page, prefixes)
    except (MalformedXML, ParseError, UnicodeDecodeError) as error:
        last = f"after the page {page.title!r}" if page is not None else "before the first page"
        raise DataError(f"{entry.place}: cut off or damaged {last}: {error}; fetch the dump again") from None


def _record(entry: Entry, page: Any, prefixes: list[str]) -> Record:
    place = f"{entry.name}#{page.id}"
    if page.redirect is not None:
        return Record(place, {}, "redirect")
    if page.namespace != 0:
        return Record(place, {}, "page outside namespace 0")
    text = ""
    for revision in page:
        text = revision.text or ""
    return Record(place, {"title": page.title, "wikitext": text, "prefixes": prefixes})
