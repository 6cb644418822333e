"""Groups of near copies, from MinHash signatures by locality-sensitive hashing and union-find.

Signatures are cut into bands; two texts that agree in a whole band are compared in all places. Method: Leskovec, Rajaraman &
Ullman, Mining of Massive Datasets, 3.4. Memory: a signature (512 bytes at 128 permutations) and some 40 bytes a text.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

SURE = 0.995
"""Least probability that a pair right at the threshold shares a band and so gets compared."""
LARGEST_BUCKET = 1000
"""Texts after it in its bucket that a text is compared with. Buckets beyond this come from boilerplate; other bands find what this one leaves."""
PAIRS_AT_ONCE = 1 << 16
"""Pairs compared in one numpy call: some 70 MB at 128 permutations."""


class Groups:
    """Union-find over 0 … size-1. The name of a group is its smallest member, so it depends on no order."""

    def __init__(self, size: int) -> None:
        self._parent = list(range(size))

    def find(self, item: int) -> int:
        parent = self._parent
        while parent[item] != item:
            parent[item] = parent[parent[item]]
            item = parent[item]
        return item

    def join(self, one: int, other: int) -> None:
        one, other = self.find(one), self.find(other)
        if one != other:
            self._parent[max(one, other)] = min(one, other)

    def join_equal(self, keys: Iterable[object]) -> None:
        """Join all items with the same key; `keys` has one for each item."""
        first: dict[object, int] = {}
        for item, key in enumerate(keys):
            self.join(first.setdefault(key, item), item)

    def names(self) -> list[int]:
        """The group of each item."""
        return [self.find(item) for item in range(len(self._parent))]


def rows_of_a_band(threshold: float, permutations: int) -> int:
    """The longest band with which a pair at the threshold is still compared almost surely; longer bands mean fewer needless comparisons."""
    fitting = [
        rows for rows in range(1, permutations + 1) if 1 - (1 - threshold**rows) ** (permutations // rows) >= SURE
    ]
    return max(fitting, default=1)


def near_groups(signatures: "np.ndarray", threshold: float) -> Groups:
    """Groups of texts that are linked by pairs of an estimated similarity of at least `threshold`. signatures: [texts, permutations] uint32."""
    import numpy as np

    count, permutations = signatures.shape
    groups = Groups(count)
    groups.join_equal(row.tobytes() for row in signatures)
    # One of each set of equal signatures stands for all of them.
    single = np.fromiter((item for item in range(count) if groups.find(item) == item), dtype=np.int64)
    kept = signatures[single]
    least = int(np.ceil(threshold * permutations))
    rows = rows_of_a_band(threshold, permutations)
    for start in range(0, permutations - rows + 1, rows):
        for left, right in _pairs(kept[:, start : start + rows]):
            alike = (kept[left] == kept[right]).sum(axis=1) >= least
            for one, other in zip(single[left[alike]].tolist(), single[right[alike]].tolist(), strict=True):
                groups.join(one, other)
    return groups


def _pairs(band: "np.ndarray") -> Iterator[tuple["np.ndarray", "np.ndarray"]]:
    """Pairs of places with equal rows in `band` [texts, rows], in pieces."""
    import numpy as np

    packed = np.ascontiguousarray(band).view(np.dtype((np.void, band.shape[1] * band.itemsize))).ravel()
    _, bucket = np.unique(packed, return_inverse=True)
    order = np.argsort(bucket, kind="stable")
    bucket = bucket[order]
    places = np.arange(len(bucket))
    for distance in range(1, LARGEST_BUCKET + 1):
        places = places[places + distance < len(bucket)]
        places = places[bucket[places] == bucket[places + distance]]
        if not len(places):
            return
        for start in range(0, len(places), PAIRS_AT_ONCE):
            piece = places[start : start + PAIRS_AT_ONCE]
            yield order[piece], order[piece + distance]
