"""Words, as perplexity per word and tokens per word count them."""

import re

_WITHOUT_SPACES = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Kana and Han: written without spaces, so that each character counts as a word."""
_WORD = re.compile(rf"[{_WITHOUT_SPACES}]|[^\s{_WITHOUT_SPACES}]+")


def count_words(text: str) -> int:
    """Runs of characters between white space; each Han or kana character is one of its own."""
    return len(text.split()) if text.isascii() else sum(1 for _ in _WORD.finditer(text))
