"""Wikitext → plain text: what a reader of the article sees, without templates, tables, notes, formulas and pictures.

What nests simply (comments, templates, tables, notes) is cut out by patterns first, as the parser takes three quarters of its
time for it; links, tags, entities and headings are left to mwparserfromhell.
"""

import re
from collections import Counter
from typing import Any

COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
UNSEEN = "ref|gallery|math|chem|timeline|score|imagemap|syntaxhighlight|source|templatestyles|mapframe|hiero|graph"
NOTE = re.compile(rf"<({UNSEEN})\b(?:[^<>]*/>|[^<>]*>.*?</\1\s*>)", re.DOTALL | re.IGNORECASE)
TEMPLATE = re.compile(r"\{\{[^{}]*\}\}|\{\{\{[^{}]*\}\}\}")
TABLE = re.compile(r"^[ :*#]*\{\|(?:(?!^[ :*#]*\{\|).)*?^\s*\|\}", re.DOTALL | re.MULTILINE)
SWITCH = re.compile(r"__[A-Z]+__")
QUOTES = re.compile(r"'{2,}")
LANGUAGE_LINK = re.compile(r"(?:[a-z]{2,3}|simple|be-x-old|zh-[a-z-]+):[^:]", re.ASCII)
"""A link to the same article in another language."""
EMPTY_LEFT = re.compile(r"([(（])[\s,;:，；：]+")
EMPTY_RIGHT = re.compile(r"[\s,;:，；：]+([)）])")
EMPTY_BRACKETS = re.compile(r"[^\S\n]?(?:\(\)|（）|\[\])")
SPACES = re.compile(r"[^\S\n]+")
SPACE_BEFORE_STOP = re.compile(r" +([,.;:])(?=\s)")
BREAKS = ("br", "hr")
"""Tags that end a line."""
BLOCKS = ("p", "div", "blockquote", "li", "dd", "dt", "poem", "center")
"""Tags that stand on lines of their own."""
HIDDEN = {*UNSEEN.split("|"), "table", "references", "noinclude"}
ALWAYS_HIDDEN = ("file", "image", "category", "media")
"""Prefixes of links that work in every wiki, whatever its language."""


def plain_text(wikitext: str, prefixes: list[str], drop_sections: list[str]) -> tuple[str, Counter[str]]:
    """The text, and how much of what was left out. `prefixes`: of links to files and categories in the wiki's language."""
    import mwparserfromhell

    counts: Counter[str] = Counter()
    text = COMMENT.sub("", wikitext)
    text, counts["notes, formulas and galleries left out"] = NOTE.subn("", text)
    text, counts["templates left out"] = _without_nested(TEMPLATE, text)
    text, counts["tables left out"] = _without_nested(TABLE, text)
    renderer = _Renderer({*ALWAYS_HIDDEN, *(prefix.lower() for prefix in prefixes)}, counts)
    sections = _sections(
        mwparserfromhell.parse(SWITCH.sub("", text)), renderer, {name.casefold() for name in drop_sections}, counts
    )
    return _tidy(sections), +counts


def _without_nested(pattern: re.Pattern[str], text: str) -> tuple[str, int]:
    """Cut out the innermost again and again, until none is left."""
    total = 0
    while True:
        text, count = pattern.subn("", text)
        if not count:
            return text, total
        total += count


def _sections(code: Any, renderer: "_Renderer", unwanted: set[str], counts: Counter[str]) -> str:
    """Headings stand on lines of their own; a section without text has none."""
    from mwparserfromhell.nodes import Heading

    parts: list[str] = []
    headings: list[tuple[int, str]] = []
    dropped_level = 0
    for node in code.nodes:
        if isinstance(node, Heading):
            title = renderer.text(node.title).strip()
            headings = [each for each in headings if each[0] < node.level]
            if dropped_level and node.level > dropped_level:
                continue
            dropped_level = node.level if title.casefold() in unwanted else 0
            counts["sections left out"] += bool(dropped_level)
            headings.append((node.level, title))
        elif not dropped_level:
            text = renderer.node(node)
            if headings and text.strip():
                parts += [f"\n\n{title}\n\n" for _, title in headings if title]
                headings = []
            parts.append(text)
    return "".join(parts)


class _Renderer:
    """Nodes of mwparserfromhell → text."""

    def __init__(self, hidden_prefixes: set[str], counts: Counter[str]) -> None:
        self.hidden_prefixes, self.counts = hidden_prefixes, counts

    def text(self, code: Any) -> str:
        return "".join(map(self.node, code.nodes)) if code is not None else ""

    def node(self, node: Any) -> str:
        from mwparserfromhell import nodes

        if isinstance(node, nodes.Text):
            return node.value
        if isinstance(node, nodes.Wikilink):
            return self._link(node)
        if isinstance(node, nodes.Tag):
            return self._tag(node)
        if isinstance(node, nodes.ExternalLink):
            return self.text(node.title) if node.brackets else str(node.url)
        if isinstance(node, nodes.HTMLEntity):
            return node.normalize()
        if isinstance(node, nodes.Heading):
            return f"\n{self.text(node.title).strip()}\n"
        self.counts["templates left out"] += isinstance(node, nodes.Template)
        return ""

    def _link(self, node: Any) -> str:
        title = str(node.title).strip()
        prefix, colon, _ = title.partition(":")
        if colon and (
            prefix.strip().lower() in self.hidden_prefixes or (node.text is None and LANGUAGE_LINK.match(title))
        ):
            self.counts["links to files, categories and other languages left out"] += 1
            return ""
        return self.text(node.title).lstrip(":") if node.text is None else self.text(node.text)

    def _tag(self, node: Any) -> str:
        name = str(node.tag).strip().lower()
        if name in HIDDEN:
            self.counts["notes, formulas and galleries left out" if name != "table" else "tables left out"] += 1
            return ""
        if name in BREAKS:
            return "\n"
        inner = self.text(node.contents)
        # The marks of lists (*, #, :, ;) already stand at the beginning of a line.
        return f"\n{inner}\n" if name in BLOCKS and not node.wiki_markup else inner


def _tidy(text: str) -> str:
    """Close the gaps that what was cut out has left."""
    text = SPACES.sub(" ", QUOTES.sub("", text))
    text = EMPTY_BRACKETS.sub("", EMPTY_RIGHT.sub(r"\1", EMPTY_LEFT.sub(r"\1", text)))
    lines = (line.strip() for line in SPACE_BEFORE_STOP.sub(r"\1", text).split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
