"""What counts as a word, which perplexity per word divides by."""

import pytest

from smelt.data.words import count_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 0),
        (" \n\t ", 0),
        ("one", 1),
        ("Don't count, twice.\n\nThree-part words  too", 6),
        ("naïve café – здесь", 4),
        ("你好世界", 4),
        ("我用 Python 写代码", 6),
        ("ひらがなカタカナ", 8),
        ("𠮷野家", 3),
        ("a\u3000b", 2),
    ],
)
def test_runs_between_white_space_and_single_han_characters_are_words(text, words):
    assert count_words(text) == words


def test_ascii_text_counts_as_its_parts_between_white_space():
    text = "The quick  brown fox.\nJumps over\t1,000 dogs"
    assert count_words(text) == count_words(text + "é") == len(text.split())
