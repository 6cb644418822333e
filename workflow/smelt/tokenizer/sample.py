"""The text that a tokenizer is trained on: whole documents drawn at random up to a bound, as the lines that SentencePiece takes."""

import heapq
import re
from collections.abc import Iterable, Iterator

import xxhash

from smelt.data.sentence_pieces import SPACE, UNKNOWN

LONGEST_LINE = 2_000
"""Characters. SentencePiece would drop a long line unsaid; it is cut instead, at a space if there is one."""
_BREAKS = re.compile(f"[\n{SPACE}{UNKNOWN}]")
"""The line break never joins a piece, and SentencePiece gives two characters a meaning of its own (and drops lines that hold the second)."""


def draw(texts: Iterable[str], max_bytes: int, seed: int) -> tuple[list[str], int]:
    """The sample, in the order of the corpus, and the number of texts that there were.

    Each text has a keyed hash of its place, and those with the smallest are kept as long as they fit: one pass, memory within
    `max_bytes` (of UTF-8), the same sample on every machine. A text beyond the bound is cut to it.
    """
    kept: list[tuple[int, int, str]] = []
    size = count = 0
    for place, text in enumerate(texts):
        count += 1
        data = text.encode()
        if len(data) > max_bytes:
            text = data[:max_bytes].decode(errors="ignore")
        # Negated: the heap gives up its smallest first.
        heapq.heappush(kept, (-xxhash.xxh3_64_intdigest(f"{seed}/{place}".encode()), place, text))
        size += min(len(data), max_bytes)
        while size > max_bytes:
            size -= len(heapq.heappop(kept)[2].encode())
    return [text for _, _, text in sorted(kept, key=lambda entry: entry[1])], count


def lines(texts: Iterable[str]) -> Iterator[str]:
    """What SentencePiece is given: no line breaks, no empty lines, none longer than `LONGEST_LINE`."""
    for text in texts:
        for line in _BREAKS.split(text):
            while len(line) > LONGEST_LINE:
                cut = line.rfind(" ", LONGEST_LINE // 2, LONGEST_LINE)
                cut = LONGEST_LINE if cut < 0 else cut
                yield line[:cut]
                line = line[cut:]
            if line:
                yield line
