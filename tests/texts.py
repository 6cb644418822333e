"""Texts for tests of the data plane, and corpus nodes of them: made words, real code and English from Python's own library, hard cases."""

import random
import sysconfig
from pathlib import Path
from typing import Any

import tiny
from smelt.data.documents import write_documents
from smelt.plan.manifest import Manifest

HAN = "的一是不了人我在有他这为之大来以个中上们到说国和地也子时道出而要于就下得可你年生自会那后能对着事其里所去行过家十用发天如然作方成者多日都三小军二无同么经法当起与好看学进种将还分此心前面又定见只主没公从"
WORDS = [
    "the",
    "of",
    "and",
    "to",
    "in",
    "is",
    "was",
    "for",
    "as",
    "on",
    "with",
    "by",
    "he",
    "at",
    "from",
    "his",
    "it",
    "an",
    "were",
    "are",
    "which",
    "this",
    "be",
    "had",
    "not",
    "first",
    "has",
    "also",
]
ATOMS = (
    *("</s>", "<pad>", "<s>", "<unk>", "<0x41>", "<0x0A>", "[MASK]", "<|endoftext|>", "\u2581", "\u2581\u2581", "\u2585"),
    *(" ", "  ", "    ", "\t", "\n", "\n\n", "\r\n", "\u3000", "\u00a0", "\u200b", "\ufeff", "\u2028", "\x01", "\x1f", "\x7f"),
    *("，", "。", "（", "你好", "世界", "𠮷", "𪚥", "Ａ", "ﬁ", "é", "e\u0301", "e\u0301\u0323", "नमस्ते", "ไทย", "\ufffd"),
    *("👩‍👩‍👧", "🇨🇳", "👍🏽", "☺️", "def f(x):", "    return", "if a == b", "--------", "......", "aaaaa", "ababab", "3.14", "1,000"),
    *("the", "The ", " of", "ing", "-", '"', "'s", "http://x.y/z?a=b&c"),
)  # fmt: skip


def prose(rng: random.Random, words: int) -> str:
    """English-like lines: frequent words, made words by a Zipf-like draw, punctuation, now and then a line break."""
    out = []
    for i in range(words):
        rank = int(1 / (rng.random() + 0.002))
        made = "".join(chr(97 + (rank * k * 7 + k) % 26) for k in range(1, 3 + rank % 6))
        out.append(rng.choice(WORDS) if rng.random() < 0.4 else made)
        if i % 12 == 11:
            out[-1] += rng.choice((".", ",", ".\n", ".\n\n", "?"))
    return " ".join(out)


def chinese(rng: random.Random, characters: int) -> str:
    return "".join(rng.choice(HAN) + (rng.choice("，。、\n") if i % 14 == 13 else "") for i in range(characters))


def library(files: int = 12) -> list[str]:
    """Files of Python's own library: real code with real English in it, on every machine."""
    folder = Path(sysconfig.get_path("stdlib"))
    names = ("argparse", "ast", "calendar", "cmd", "copy", "csv", "datetime", "difflib", "enum", "functools", "heapq", "inspect", "mailbox", "pickle", "statistics", "textwrap", "typing", "uuid", "zipfile")  # fmt: skip
    return [path.read_text() for name in names if (path := folder / f"{name}.py").exists()][:files]


def hard(rng: random.Random, count: int) -> list[str]:
    """Strings of what tokenizers get wrong, and of characters from all over Unicode (no surrogates)."""

    def character() -> str:
        low, high = rng.choice(
            ((0x20, 0x7F), (0xA0, 0x3000), (0x3000, 0x9FFF), (0xE000, 0xFFFF), (0x1F300, 0x1FAFF), (0x20000, 0x2A6DF))
        )
        return chr(rng.randrange(low, high))

    return [
        "".join(rng.choice(ATOMS) if rng.random() < 0.7 else character() for _ in range(rng.randrange(1, 25)))
        for _ in range(count)
    ]


def corpus(
    root: Path, train: list[str], valid: list[str] | None = None, test: list[str] | None = None, label: str = "made"
) -> Manifest:
    """A corpus node of these texts; valid and test are the first of train unless given."""
    directory = root / "corpus" / f"{label}-0000000000"
    directory.mkdir(parents=True)
    splits = {
        "train": train,
        "valid": train[:2] if valid is None else valid,
        "test": train[:1] if test is None else test,
    }
    for split, texts in splits.items():
        write_documents(
            directory / f"{split}.jsonl.zst", ({"id": f"{split}-{i}", "text": text} for i, text in enumerate(texts))
        )
    facts: dict[str, Any] = {"documents": {split: len(texts) for split, texts in splits.items()}}
    return tiny.node(root, "corpus", label, facts)


def mixed(seed: int = 1, documents: int = 40) -> list[str]:
    """English-like and Chinese documents of some hundred words."""
    rng = random.Random(seed)
    return [
        prose(rng, rng.randrange(20, 400)) if i % 3 else chinese(rng, rng.randrange(20, 400)) for i in range(documents)
    ]
