"""The texts of tests/workflow/mini.yaml: made from a seed, so that every test and every machine has the same bytes."""

import json
import random
from pathlib import Path

GOOD = ("good", "lovely", "bright", "warm", "kind")
BAD = ("bad", "awful", "dull", "cold", "rude")
WORDS = [
    "the",
    "a",
    "one",
    "old",
    "small",
    "river",
    "town",
    "baker",
    "teacher",
    "market",
    "street",
    "garden",
    "bridge",
    "morning",
    "evening",
    "winter",
    "summer",
    "bread",
    "water",
    "letter",
    "music",
    "window",
    "door",
    "walked",
    "found",
    "carried",
    "opened",
    "sold",
    "wrote",
    "heard",
    "saw",
    "kept",
    "under",
    "near",
    "behind",
    "after",
    "before",
    "with",
    "without",
    "and",
    "but",
    "because",
    "slowly",
    "quietly",
    "early",
    "late",
    "twice",
    "never",
    "often",
]


def write_texts(folder: Path, seed: int = 7) -> None:
    """`articles/` (paragraphs), `mood.tsv` (label, text) and `talk.jsonl` (messages)."""
    rng = random.Random(seed)
    (folder / "articles").mkdir(parents=True)
    for name in ("east", "west"):
        paragraphs = [" ".join(_sentence(rng) for _ in range(rng.randrange(3, 7))) for _ in range(100)]
        (folder / "articles" / f"{name}.txt").write_text("\n\n".join(paragraphs) + "\n", encoding="utf-8")
    rows = [(label, _sentence(rng, words)) for _ in range(60) for label, words in (("glad", GOOD), ("sad", BAD))]
    (folder / "mood.tsv").write_text("".join(f"{label}\t{text}\n" for label, text in rows), encoding="utf-8")
    with (folder / "talk.jsonl").open("w", encoding="utf-8") as file:
        for _ in range(60):
            word = rng.choice(GOOD + BAD)
            question = {"role": "user", "content": _sentence(rng, (word,))}
            file.write(json.dumps({"messages": [question, {"role": "assistant", "content": f"it was {word}"}]}) + "\n")


def _sentence(rng: random.Random, one_of: tuple[str, ...] = ()) -> str:
    words = [rng.choice(WORDS) for _ in range(rng.randrange(8, 16))]
    if one_of:
        words[rng.randrange(len(words))] = rng.choice(one_of)
    return " ".join(words).capitalize() + "."
