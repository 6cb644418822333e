"""What texts are compared by: a digest of the normalised text, and a MinHash signature of its shingles.

Shingles are runs of words; in scripts without spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese) each character counts as
a word, so that one rule serves mixed text as well.
"""

import re
import unicodedata

import xxhash

UNIT = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af]"
    r"|[^\W\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af]+"
)
"""A character of a script without spaces, or a run of other letters, digits and underscores."""


def normalised(text: str) -> str:
    """Equal for texts that differ in case, white space or the spelling of code points only."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def digest(text: str) -> bytes:
    """xxh3-128 of the normalised text, 16 bytes: two of 10^12 texts share one with a probability of about 10^-15."""
    return xxhash.xxh3_128_digest(normalised(text).encode())


def units(text: str) -> list[str]:
    """Words, or characters where there are no spaces; case folded, without punctuation."""
    return UNIT.findall(unicodedata.normalize("NFKC", text).casefold())


def shingles(text: str, length: int) -> list[str]:
    """Runs of `length` units, each once, in the order in which they come. A text with fewer units is one shingle; without any, its own text."""
    found = units(text) or [normalised(text)]
    count = max(1, len(found) - length + 1)
    return list(dict.fromkeys(" ".join(found[start : start + length]) for start in range(count)))


def signature(text: str, length: int, permutations: int, seed: int) -> bytes:
    """MinHash signature: `permutations` uint32 in native order. The share of equal places estimates the Jaccard similarity of the shingles."""
    import numpy as np
    import rensa

    sketch = rensa.RMinHash(permutations, seed & 0xFFFF_FFFF_FFFF_FFFF)
    sketch.update(shingles(text, length))
    return np.asarray(sketch.digest(), dtype=np.uint32).tobytes()
