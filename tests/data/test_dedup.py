"""Near copies: signatures estimate the similarity, groups are those of a comparison of all pairs."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smelt.data.dedup import SURE, Groups, near_groups, rows_of_a_band
from smelt.data.shingles import digest, normalised, shingles, signature, units


def jaccard(one: str, other: str, length: int) -> float:
    left, right = set(shingles(one, length)), set(shingles(other, length))
    return len(left & right) / len(left | right)


def test_units_are_words_and_in_chinese_characters() -> None:
    assert units("It's THE 2nd, café!") == ["it", "s", "the", "2nd", "café"]
    assert units("我爱NLP，𠮷野家") == ["我", "爱", "nlp", "𠮷", "野", "家"]
    assert units("カタカナ ภาษา") == list("カタカナ") + list("ภาษา".replace(" ", ""))


def test_shingles_are_runs_of_units_and_a_short_text_is_one() -> None:
    assert shingles("a b c a b", 2) == ["a b", "b c", "c a"]
    assert shingles("我爱你", 2) == ["我 爱", "爱 你"]
    assert shingles("one two", 5) == ["one two"]
    assert shingles("!!!", 5) == ["!!!"]


def test_exact_copies_differ_in_case_space_and_spelling_of_code_points_only() -> None:
    assert digest("The  Cafe\u0301\n") == digest("the café")
    assert digest("the cafe") != digest("the café")
    assert digest("don't") != digest("dont")
    assert normalised(" A\u3000\nB ") == "a b"


@pytest.mark.parametrize("similarity", [0.2, 0.5, 0.8, 0.95])
def test_a_signature_estimates_the_jaccard_similarity(similarity: float) -> None:
    rng = random.Random(1)
    estimates = []
    for _ in range(40):
        words = [f"w{rng.random()}" for _ in range(400)]
        shared = round(400 * similarity / (1 + similarity))
        one, other = " ".join(words[:200]), " ".join(words[:shared] + words[200 : 400 - shared])
        left, right = (np.frombuffer(signature(text, 1, 128, 3), np.uint32) for text in (one, other))
        estimates.append(float((left == right).mean()) - jaccard(one, other, 1))
    # The standard error of one estimate is at most sqrt(0.25 / 128) = 0.044, of the mean of 40 of them 0.007.
    assert abs(np.mean(estimates)) < 0.03
    assert np.std(estimates) < 0.06


def test_a_signature_depends_on_text_and_seed_alone() -> None:
    assert signature("some words here", 2, 64, 1) == signature("some  WORDS here!", 2, 64, 1)
    assert signature("some words here", 2, 64, 1) != signature("some words here", 2, 64, 2)
    assert len(signature("x", 2, 64, -5)) == 4 * 64


def test_bands_are_as_long_as_pairs_at_the_threshold_allow() -> None:
    # 1 - (1 - 0.8^6)^21 = 0.9983, but 1 - (1 - 0.8^7)^18 = 0.9857 (by hand).
    assert rows_of_a_band(0.8, 128) == 6
    for threshold in (0.3, 0.5, 0.7, 0.9, 1.0):
        rows = rows_of_a_band(threshold, 128)
        assert 1 - (1 - threshold**rows) ** (128 // rows) >= SURE


def families(rng: random.Random, count: int) -> list[str]:
    """Texts in families of near copies, with a word or two changed."""
    texts = []
    for family in range(count):
        words = [
            f"f{family}w{rng.randrange(1000)}" if rng.random() < 0.5 else f"w{rng.randrange(50)}" for _ in range(40)
        ]
        for _ in range(rng.randrange(1, 4)):
            copy = list(words)
            copy[rng.randrange(40)] = f"x{rng.random()}"
            texts.append(" ".join(copy))
    rng.shuffle(texts)
    return texts


def test_groups_are_those_of_a_comparison_of_all_pairs() -> None:
    texts = families(random.Random(5), 60)
    signatures = np.stack([np.frombuffer(signature(text, 2, 128, 1), np.uint32) for text in texts])
    expected = Groups(len(texts))
    for one, other in itertools.combinations(range(len(texts)), 2):
        if (signatures[one] == signatures[other]).mean() >= 0.7:
            expected.join(one, other)
    found = near_groups(signatures, 0.7)
    assert found.names() == expected.names()
    assert len(set(found.names())) < len(texts)


def test_equal_texts_are_one_group_however_many_there_are() -> None:
    one = np.frombuffer(signature("the same boilerplate every time", 2, 128, 1), np.uint32)
    assert set(near_groups(np.tile(one, (5000, 1)), 0.8).names()) == {0}


@given(st.lists(st.tuples(st.integers(0, 19), st.integers(0, 19)), max_size=40))
def test_union_find_gives_the_connected_components(pairs: list[tuple[int, int]]) -> None:
    groups = Groups(20)
    for one, other in pairs:
        groups.join(one, other)
    reach = [{item} for item in range(20)]
    for _ in range(20):
        for one, other in pairs:
            reach[one] |= reach[other]
            reach[other] |= reach[one]
    assert groups.names() == [min(each) for each in reach]
