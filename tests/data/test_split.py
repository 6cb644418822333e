"""Splits: fixed by content and seed, of about the asked size, and never silently empty."""

import hashlib

import pytest

from smelt.data.split import check_splits, position, split_of
from smelt.plan.errors import DataError
from smelt.plan.settings.corpus import Splits

KEYS = [hashlib.sha256(str(number).encode()).digest()[:16] for number in range(20_000)]


def test_a_split_is_fixed_by_key_and_seed() -> None:
    # Reference: BLAKE2b of the standard library, called by hand.
    digest = hashlib.blake2b(b"some key", digest_size=8, key=(5).to_bytes(16, "little"), person=b"split").digest()
    assert position(b"some key", 5, "split") == (int.from_bytes(digest, "little") >> 11) / 2**53
    assert position(b"some key", 5, "split") != position(b"some key", 6, "split")
    assert position(b"some key", 5, "split") != position(b"some key", 5, "sample")


@pytest.mark.parametrize("seed", [0, 1, -3])
def test_shares_come_out_as_asked(seed: int) -> None:
    splits = Splits(valid=0.1, test=0.2)
    counts = {"train": 0, "valid": 0, "test": 0}
    for key in KEYS:
        counts[split_of(key, splits, seed)] += 1
    # Binomial: the standard deviation of the share is at most 0.0035 here.
    assert counts["valid"] / len(KEYS) == pytest.approx(0.1, abs=0.012)
    assert counts["test"] / len(KEYS) == pytest.approx(0.2, abs=0.012)


def test_a_larger_share_keeps_in_test_what_was_there() -> None:
    small = {key for key in KEYS if split_of(key, Splits(valid=0.1, test=0.1), 1) == "test"}
    large = {key for key in KEYS if split_of(key, Splits(valid=0.1, test=0.3), 1) == "test"}
    assert small < large


def test_an_empty_split_is_an_error_with_the_way_out() -> None:
    with pytest.raises(
        DataError, match=r"split 'valid' came out empty: its share is 0.01 .* 40 groups .* raise splits.valid to 0.075"
    ):
        check_splits({"train": 39, "valid": 0, "test": 1}, 40, Splits(), "documents")
    check_splits({"train": 40, "valid": 0, "test": 0}, 40, Splits(valid=0, test=0), "documents")
    with pytest.raises(DataError, match=r"split 'train' came out empty.*lower splits"):
        check_splits({"train": 0, "valid": 1, "test": 1}, 2, Splits(valid=0.4, test=0.4), "documents")
