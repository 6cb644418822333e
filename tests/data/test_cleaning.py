"""Cleaning: nothing is altered unasked, each step does what it says and counts it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smelt.data.cleaning import clean, repeated_lines, repeated_ngrams
from smelt.plan.settings.corpus import Cleaning


@given(st.text(st.characters(exclude_characters="\r", exclude_categories=("Cs",))))
def test_by_default_text_is_kept_as_it_is(text: str) -> None:
    cleaned = clean(text, Cleaning())
    assert cleaned.text == text
    assert cleaned.altered == {}
    assert cleaned.dropped == (None if text.strip() else "empty")


@pytest.mark.parametrize(
    ("settings", "text", "expected", "altered"),
    [
        ({}, "a\r\nb\rc", "a\nb\nc", {"line breaks made \\n": 2}),
        ({"unicode": "nfc"}, "cafe\u0301，ﬁ", "café，ﬁ", {"texts brought to normal form": 1}),
        ({"unicode": "nfkc"}, "ﬁ，Ａ", "fi,A", {"texts brought to normal form": 1}),
        ({"unicode": "nfc"}, "plain", "plain", {}),
        (
            {"control_characters": "remove"},
            "a\x00b\tc\nd\x07\u2028e\ufeff\U0001ffff",
            "ab\tc\nde",
            {"control characters removed": 5},
        ),
        ({"whitespace": "trim"}, "  a  b \t\n\n\n\n c\u3000\n", "a  b\n\n c", {"texts with white space altered": 1}),
        ({"whitespace": "collapse"}, "a \u00a0\t b\n  c", "a b\n c", {"texts with white space altered": 1}),
        (
            {"markup_lines": "drop"},
            "good [1]\n|name=x\n{{rest\nsee <b>x</b>\na&nbsp;b\na < b & c > d",
            "good [1]\na < b & c > d",
            {"lines with markup dropped": 4},
        ),
    ],
)
def test_a_step_alters_what_it_says_and_counts_it(
    settings: dict[str, Any], text: str, expected: str, altered: dict[str, int]
) -> None:
    cleaned = clean(text, Cleaning(**settings))
    assert (cleaned.text, cleaned.altered, cleaned.dropped) == (expected, altered, None)


@pytest.mark.parametrize(
    ("settings", "text", "reason"),
    [
        ({}, " \n\t", "empty"),
        ({}, "half \ud83d", "half characters (lone surrogates)"),
        ({"control_characters": "remove"}, "\x00\x01", "empty"),
        ({"min_characters": 4}, "abc", "shorter than min_characters=4"),
        ({"max_characters": 3}, "abcd", "longer than max_characters=3"),
        ({"max_repeated_lines": 0.3}, "a\na\nb", "more than max_repeated_lines=0.3"),
        ({"max_repeated_ngrams": 0.3}, "buy now " * 20, "more than max_repeated_ngrams=0.3"),
    ],
)
def test_a_text_that_does_not_fit_is_left_out_with_the_reason(settings: dict[str, Any], text: str, reason: str) -> None:
    assert clean(text, Cleaning(**settings)).dropped == reason


def test_repetition_is_the_share_of_what_was_there_before() -> None:
    # By hand: of 4 non-empty lines, 2 repeat an earlier one.
    assert repeated_lines("x\n\ny\n x\ny") == 0.5
    # 20 words in a circle of 10: 11 ten-grams, the last one equal to the first.
    words = " ".join(f"w{number % 10}" for number in range(20))
    assert repeated_ngrams(words) == pytest.approx(1 - 10 / 11)
    assert repeated_ngrams("天" * 20) == pytest.approx(1 - 1 / 11)
    assert repeated_ngrams("too short") == 0
