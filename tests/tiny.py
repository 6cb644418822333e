"""Nodes made by hand for tests of later stages: a converted model of a few thousand parameters, labelled texts, dialogue.

They hold to the contracts of the stages that make the real ones, and cost no training.
"""

import random
from pathlib import Path
from typing import Any

from smelt.data.documents import write_documents
from smelt.plan.manifest import FORMAT, Manifest, listing, to_json, write_atomically

POSITIVE = ("good", "great", "lovely", "fine", "bright", "warm")
NEGATIVE = ("bad", "poor", "awful", "dull", "dark", "cold")
PLAIN = ("the", "film", "was", "a", "story", "and", "we", "saw", "it", "once", "more", "in", "town", "with", "friends")


def node(root: Path, stage: str, label: str, facts: dict[str, Any], upstream: dict[str, Any] | None = None) -> Manifest:
    """Write the manifest for all that lies in the node's folder."""
    directory = root / stage / f"{label}-0000000000"
    directory.mkdir(parents=True, exist_ok=True)
    names = [str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()]
    content = {
        "format": FORMAT,
        "stage": stage,
        "node": directory.name,
        "settings": {},
        "upstream": upstream or {},
        "files": listing(directory, [name for name in names if name != "manifest.json"]),
        "facts": facts,
    }
    write_atomically(directory / "manifest.json", to_json(content))
    return Manifest.read(directory / "manifest.json")


def sentence(rng: random.Random, words: tuple[str, ...] = (), length: int = 8) -> str:
    """`length` plain words, one of `words` among them."""
    chosen = [rng.choice(PLAIN) for _ in range(length)]
    if words:
        chosen[rng.randrange(length)] = rng.choice(words)
    return " ".join(chosen)


def labelled(root: Path, rows: int = 384, label: str = "opinions", **changed: Any) -> Manifest:
    """A classification node in which one word decides. `changed` replaces rows of a split."""
    rng = random.Random(5)
    directory = root / "task" / f"{label}-0000000000"
    directory.mkdir(parents=True)
    sizes = {"train": rows, "valid": rows // 4, "test": rows // 4}
    names: set[str] = set()
    for split, size in sizes.items():
        found = []
        for i in range(size):
            name = ("negative", "positive")[i % 2]
            words = POSITIVE if name == "positive" else NEGATIVE
            found.append({"id": f"{split}-{i}", "text": sentence(rng, words, rng.randrange(3, 12)), "label": name})
        found = changed.get(split, found)
        names |= {row["label"] for row in found}
        sizes[split] = write_documents(directory / f"{split}.jsonl.zst", found)
    return node(root, "task", label, {"kind": "classification", "labels": sorted(names), "rows": sizes, "dropped": {}})


def dialogue(root: Path, rows: int = 64, label: str = "small-talk", **changed: Any) -> Manifest:
    """A dialogue node in which the answer follows from the question's word."""
    rng = random.Random(6)
    directory = root / "task" / f"{label}-0000000000"
    directory.mkdir(parents=True)
    sizes = {"train": rows, "valid": rows // 4, "test": rows // 4}
    for split, size in sizes.items():
        found = []
        for i in range(size):
            messages = []
            for _ in range(1 + i % 3):
                word = rng.choice(POSITIVE + NEGATIVE)
                messages.append({"role": "user", "content": sentence(rng, (word,), rng.randrange(2, 6))})
                messages.append({"role": "assistant", "content": f"yes it was {word}"})
            found.append({"id": f"{split}-{i}", "messages": messages})
        sizes[split] = write_documents(directory / f"{split}.jsonl.zst", changed.get(split, found))
    return node(root, "task", label, {"kind": "dialogue", "labels": [], "rows": sizes, "dropped": {}})


def tokenizer() -> Any:
    """A BPE of whole words and bytes with the special pieces of our tokenizers: pad 0, bos 1, eos 2, unk 3."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    special = ["<pad>", "<s>", "</s>", "<unk>"]
    inner = Tokenizer(models.BPE(unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Metaspace()
    inner.decoder = decoders.Metaspace()
    texts = [" ".join(POSITIVE), " ".join(NEGATIVE), " ".join(PLAIN), "yes it was abcdefghijklmnopqrstuvwxyz ."] * 4
    inner.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=200, special_tokens=special, show_progress=False))
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        split_special_tokens=True,
    )


def converted(
    root: Path, positions: int = 48, dropout: float = 0.1, tokenizer_node: str = "tokenizer/tiny-0000000000"
) -> Manifest:
    """A convert node: two blocks of width 32, random weights."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    directory = root / "convert" / "tiny-0000000000"
    words = tokenizer()
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(words), n_positions=positions, n_embd=32, n_layer=2, n_head=2,
        resid_pdrop=dropout, embd_pdrop=dropout, attn_pdrop=dropout,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, dtype="float32",
    )  # fmt: skip
    model = GPT2LMHeadModel(config)
    model.save_pretrained(directory / "hf")
    words.save_pretrained(directory / "hf")
    return node(
        root, "convert", "tiny", {"tied": True, "parameters": model.num_parameters()}, {"tokenizer": tokenizer_node}
    )


def shards(
    root: Path, documents: dict[str, list[str]] | None = None, tokenizer_node: str = "tiny-0000000000"
) -> Manifest:
    """A shards node of the tiny tokenizer. The default texts give splits of some hundred tokens."""
    import numpy as np

    from smelt.data.shard import ShardWriter, token_type
    from smelt.data.words import count_words

    rng = random.Random(7)
    made = {
        split: [sentence(rng, POSITIVE + NEGATIVE, rng.randrange(3, 30)) for _ in range(count)]
        for split, count in (("train", 60), ("valid", 10), ("test", 12))
    }
    words = tokenizer()
    directory = root / "shards" / "tiny-0000000000"
    directory.mkdir(parents=True)
    splits = {}
    for split, texts in {**made, **(documents or {})}.items():
        # So small that a split takes several shards.
        with ShardWriter(directory, split, token_type(len(words)), 400, {}) as writer:
            for text in texts:
                writer.add(np.array([*words.encode(text, add_special_tokens=False), words.eos_token_id]))
        splits[split] = {
            "tokens": sum(record["tokens"] for record in writer.records),
            "documents": len(texts),
            "bytes": sum(len(text.encode()) for text in texts),
            "words": sum(count_words(text) for text in texts),
            "shards": writer.records,
        }
    facts = {"dtype": "<u2", "eos": 2, "vocab_size": len(words), "tokenizer": tokenizer_node, "splits": splits}
    return node(root, "shards", "tiny", facts)
