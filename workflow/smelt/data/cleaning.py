"""Cleaning of one text by the steps of the settings; what each step alters or leaves out is counted."""

import re
import unicodedata
from typing import NamedTuple

import xxhash

from smelt.data.shingles import units
from smelt.plan.settings.corpus import Cleaning

CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufff9-\ufffb\ufdd0-\ufdef\ufffe\uffff"
    + "".join(f"{chr(plane * 0x10000 + 0xFFFE)}{chr(plane * 0x10000 + 0xFFFF)}" for plane in range(1, 17))
    + "]"
)
"""C0 and C1 but for tab and line break; Unicode's line and paragraph separators; the byte order mark; annotations; noncharacters."""
SURROGATE = re.compile("[\ud800-\udfff]")
"""Half a character: JSON can spell it, UTF-8 can't store it."""
LINE_BREAK = re.compile("\r\n?")
MARKUP = re.compile(
    r"\{\{|\}\}|\[\[|\]\]|\{\||\|\}|'''?|</?[A-Za-z][A-Za-z0-9]*(?:\s[^<>]*)?/?>|&(?:[A-Za-z]{2,8}|#\d{1,7}|#x[0-9A-Fa-f]{1,6});|^\s*[|!][^|]*="
)
LINE_END_SPACES = re.compile(r"[^\S\n]+(?=\n|\Z)")
EMPTY_LINES = re.compile(r"\n{3,}")
SPACES = re.compile(r"[^\S\n]+")
NGRAM = 10
"""Units of the n-grams whose repetition is measured (the longest of Rae et al. 2021)."""


class Cleaned(NamedTuple):
    """A text after cleaning, or the reason why it is left out."""

    text: str
    dropped: str | None
    altered: dict[str, int]
    """Step → how much it altered, in the unit that the step's name says."""


def clean(text: str, settings: Cleaning) -> Cleaned:
    """Apply the steps in the order of the settings. Line breaks always become `\\n`."""
    altered: dict[str, int] = {}
    if not text.isascii() and SURROGATE.search(text):
        return Cleaned(text, "half characters (lone surrogates)", altered)
    if "\r" in text:
        text, altered["line breaks made \\n"] = LINE_BREAK.subn("\n", text)
    if settings.unicode != "keep":
        text = _noted(
            altered, "texts brought to normal form", text, unicodedata.normalize(settings.unicode.upper(), text)
        )
    if settings.control_characters == "remove":
        text, altered["control characters removed"] = CONTROL.subn("", text)
    if settings.markup_lines == "drop":
        lines = text.split("\n")
        kept = [line for line in lines if not MARKUP.search(line)]
        altered["lines with markup dropped"] = len(lines) - len(kept)
        text = "\n".join(kept)
    if settings.whitespace != "keep":
        text = _noted(
            altered, "texts with white space altered", text, _trimmed(text, settings.whitespace == "collapse")
        )
    return Cleaned(text, _unfit(text, settings), {step: count for step, count in altered.items() if count})


def _noted(altered: dict[str, int], step: str, before: str, after: str) -> str:
    altered[step] = int(before != after)
    return after


def _trimmed(text: str, collapse: bool) -> str:
    if collapse:
        text = SPACES.sub(" ", text)
    if "\n" in text:
        text = EMPTY_LINES.sub("\n\n", LINE_END_SPACES.sub("", text))
    return text.strip()


def _unfit(text: str, settings: Cleaning) -> str | None:
    """Why a text is left out, or None."""
    if not text.strip():
        return "empty"
    if len(text) < settings.min_characters:
        return f"shorter than min_characters={settings.min_characters}"
    if settings.max_characters is not None and len(text) > settings.max_characters:
        return f"longer than max_characters={settings.max_characters}"
    if settings.max_repeated_lines is not None and repeated_lines(text) > settings.max_repeated_lines:
        return f"more than max_repeated_lines={settings.max_repeated_lines}"
    if settings.max_repeated_ngrams is not None and repeated_ngrams(text) > settings.max_repeated_ngrams:
        return f"more than max_repeated_ngrams={settings.max_repeated_ngrams}"
    return None


def repeated_lines(text: str) -> float:
    """Share of the non-empty lines that were there before in the text."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    return 1 - len(set(lines)) / len(lines) if lines else 0.0


def repeated_ngrams(text: str) -> float:
    """Share of the 10-grams of units (see `shingles.units`) that were there before in the text."""
    found = units(text)
    grams = [" ".join(found[start : start + NGRAM]) for start in range(len(found) - NGRAM + 1)]
    return 1 - len({xxhash.xxh3_64_intdigest(gram.encode()) for gram in grams}) / len(grams) if grams else 0.0
