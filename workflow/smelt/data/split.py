"""Which split a group of near copies goes to: a keyed hash decides, so that neither order, threads nor other data move it."""

import hashlib

from smelt.plan.errors import DataError
from smelt.plan.settings.corpus import Splits

SPLITS = ("train", "valid", "test")


def position(key: bytes, seed: int, purpose: str) -> float:
    """A number in [0, 1) that is fixed by its arguments and looks random: 53 bits of BLAKE2b."""
    digest = hashlib.blake2b(
        key, digest_size=8, key=seed.to_bytes(16, "little", signed=True), person=purpose.encode()
    ).digest()
    return (int.from_bytes(digest, "little") >> 11) / 2**53


def split_of(key: bytes, splits: Splits, seed: int) -> str:
    """train, valid or test."""
    at = position(key, seed, "split")
    return "test" if at < splits.test else "valid" if at < splits.test + splits.valid else "train"


def check_splits(rows: dict[str, int], groups: int, splits: Splits, what: str) -> None:
    """Raises DataError for a split that should hold something and doesn't, with the way out."""
    for name in SPLITS:
        share = getattr(splits, name, 1 - splits.valid - splits.test)
        if share and not rows[name]:
            advice = (
                f"raise splits.{name} to {min(0.3, 3 / groups):.2g} or more"
                if name != "train"
                else "lower splits.valid and splits.test"
            )
            raise DataError(
                f"split {name!r} came out empty: its share is {share:g} and there are {groups:,} groups of {what} to share out. "
                f"Take more data, {advice}, or take another seed (a share of 0 does without the split)"
            )
