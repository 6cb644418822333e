"""A small experiment as its stages would have left it, written by hand per their contracts: for tests of report and archive."""

import json
import math
import random
from pathlib import Path
from typing import Any

from smelt.plan.job import figure
from smelt.plan.manifest import FORMAT, Manifest, canonical, listing, sha256_file, sha256_text, to_json

HOST = "secret-host-17"
UNIGRAM, MAJORITY, TFIDF = "unigram model", "majority class", "TF-IDF + logistic regression"
SAID = "Do you like <b>music</b> & films?"

HOSTILE = '</style></script><script>document.title="hacked"</script><img src=x onerror=alert(1)>"\'><b onmouseover=alert(2)>{{ 7*7 }}'
"""Text that becomes a script where it is put into a page as it is."""


class Made:
    """Writes nodes under `root`; `nodes` holds their manifests by name."""

    def __init__(self, root: Path, seed: int = 0) -> None:
        self.root, self.random = root, random.Random(seed)
        self.nodes: dict[str, Manifest] = {}

    def add(self, name: str, stage: str, label: str, settings: dict[str, Any], facts: dict[str, Any], *, files: dict[str, str | bytes] | None = None,
            measurements: dict[str, Any] | None = None, seconds: float = 3.0, **upstream: str | list[str]) -> Manifest:  # fmt: skip
        """`upstream`: role → name of a node that was added before."""
        refs = {
            role: [self.ref(n) for n in given] if isinstance(given, list) else self.ref(given)
            for role, given in upstream.items()
        }
        identity = f"{label}-{sha256_text(canonical([stage, settings, refs]))[:10]}"
        folder = self.root / stage / identity
        kept = list((files or {}).items())
        self.random.shuffle(kept)  # the order in which files were made must not matter
        for file, content in kept:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(content.encode() if isinstance(content, str) else content)
        folder.mkdir(parents=True, exist_ok=True)
        manifest = {
            "format": FORMAT, "stage": stage, "node": identity, "settings": settings, "upstream": refs,
            "files": listing(folder, list(files or {})), "facts": facts,
        }  # fmt: skip
        inputs = {
            r: sha256_file(self.root / r / "manifest.json")
            for given in refs.values()
            for r in ([given] if isinstance(given, str) else given)
        }
        spec = {"format": FORMAT, "stage": stage, "settings": settings, "upstream": refs, "code": "0123456789abcdef"}
        provenance = {
            "spec": spec, "inputs": inputs, "code": {f"smelt.{stage}.stage": "00ff"}, "commit": "c0ffee" * 6 + "c0ff", "modified": False,
            "lock": "ab" * 32, "packages": {"torch": "2.13.0", "transformers": "5.24.0"}, "python": "3.11.7",
            "system": "Linux-6.1-x86_64", "host": HOST, "cpus": 2, "devices": [], "threads": 2, "options": {"gpus": 0},
            "started": f"2026-11-30T12:{len(self.nodes):02d}:00Z", "seconds": seconds, "measurements": measurements or {},
        }  # fmt: skip
        (folder / "manifest.json").write_text(to_json(manifest), encoding="utf-8")
        (folder / "provenance.json").write_text(to_json(provenance), encoding="utf-8")
        self.nodes[name] = Manifest.read(folder / "manifest.json")
        return self.nodes[name]

    def ref(self, name: str) -> str:
        return f"{self.nodes[name].stage}/{self.nodes[name].id}"


def make_pretrained(root: Path, seed: int = 0, licence: str = "CC BY-SA 3.0") -> Made:
    """Corpus to converted model and its evaluation: an experiment without fine-tuning or benchmark."""
    made = Made(root, seed)
    sizes = {
        "documents": (96, 5, 5),
        "words": (420_113, 18_220, 19_001),
        "characters": (2_610_440, 110_300, 118_201),
        "bytes": (2_655_020, 111_922, 120_004),
    }
    facts: dict[str, Any] = {name: dict(zip(("train", "valid", "test"), counts)) for name, counts in sizes.items()}
    source = {
        "kind": "package",
        "release": "gensim-4.4.0.tar.gz",
        "licence": licence,
        "provenance": "A sample of a Wikipedia dump",
    }
    facts |= {
        "dropped": {"redirect": 94, "too_short": 4, "exact_duplicate": 2},
    }
    made.add(
        "corpus",
        "corpus",
        "wiki",
        {"sources": [source], "seed": 1},
        facts,
        files={"card.json": "{}\n", "train.jsonl.zst": b"\x28\xb5"},
        seconds=8.1,
    )
    made.add(
        "tokenizer", "tokenizer", "en-2k", {"kind": "bpe", "vocab_size": 2048},
        {"kind": "bpe", "vocab_size": 2048, "special_tokens": {"pad": 0, "bos": 1, "eos": 2, "unk": 3},
         "figures": [figure("tokens_per_word", "test", 1.7312, "tokens"), figure("unknown_rate", "test", 0.0, "share")]},
        files={"tokenizer.model": b"\x0a\x00", "card.json": json.dumps({"longest_pieces": ["▁characteristics", "▁administration"]})}, seconds=4.2, corpus="corpus",
    )  # fmt: skip
    split = {name: {"tokens": t, "documents": d, "bytes": b, "words": w, "shards": [{"file": "train-00000.lmdb", "tokens": t, "documents": d, "offset": 0}]}
             for name, t, d, b, w in (("train", 727_300, 96, 2_655_020, 420_113), ("valid", 31_544, 5, 111_922, 18_220), ("test", 33_020, 5, 120_004, 19_001))}  # fmt: skip
    made.add(
        "shards", "shards", "wiki", {"dtype": "auto"},
        {"dtype": "<u2", "eos": 2, "vocab_size": 2048, "tokenizer": made.nodes["tokenizer"].id, "splits": split}, seconds=1.4,
        corpus="corpus", tokenizer="tokenizer",
    )  # fmt: skip
    curve = []
    for step in range(1, 601):
        rate = 3e-3 * min(1, step / 60) * (0.55 + 0.45 * math.cos(math.pi * step / 600))
        curve.append(
            {
                "step": step,
                "tokens": step * 2048,
                "loss": 4.1 + 3.6 * math.exp(-step / 90) + 0.08 * math.sin(step * 1.7),
                "learning_rate": rate,
                "grad_norm": 1.0,
            }
        )
        if step % 100 == 0:
            curve.append({"step": step, "tokens": step * 2048, "valid_loss": 4.2 + 3.4 * math.exp(-step / 100)})
    model = {"architecture": "gpt2", "num_hidden_layers": 4, "hidden_size": 128, "num_attention_heads": 4}
    made.add(
        "pretrain", "pretrain", "gpt2-mini", {"model": model, "pretraining": {"learning_rate": 3e-3}},
        {"parameters": 1_071_872, "steps": 600, "tokens": 1_228_800, "final_loss": 4.1123, "valid_loss": 4.2084,
         "figures": [figure("loss", "valid", 4.2084, "nats per token")]},
        files={"curve.jsonl": "".join(canonical(row) + "\n" for row in curve), "weights/model.safetensors": b"W" * 4096},
        measurements={"figures": [figure("throughput", "train", 14_466.2, "tokens per second")]}, seconds=84.9, shards="shards", tokenizer="tokenizer",
    )  # fmt: skip
    hf = {
        "hf/config.json": "{}\n",
        "hf/model.safetensors": bytes(range(256)) * 64,
        "hf/tokenizer.json": "{}\n",
        "hf/README.md": "# model\n",
    }
    made.add(
        "convert", "convert", "gpt2-mini", {"max_shard_size": "5GB"}, {"parity": 2.1e-6, "parity_tolerance": 1e-4, "parity_tokens": 4096, "dtype": "float32", "figures": [figure("logit difference", "valid", 2.1e-6)], "tied": True, "parameters": 1_071_872}, files=hf, seconds=9.4,
        pretrain="pretrain", tokenizer="tokenizer", shards="shards",
    )  # fmt: skip
    own = [
        figure("bits_per_byte", "test", 2.2461, "bits/byte"),
        figure("perplexity", "test", 67.2, "per token"),
        figure("word_perplexity", "test", 18_220.4, "per word"),
    ]
    unigram = [
        figure("bits_per_byte", "test", 3.3812, "bits/byte", reference=UNIGRAM),
        figure("perplexity", "test", 562.1, "per token", reference=UNIGRAM),
    ]
    made.add(
        "evaluate", "evaluate", "gpt2-mini", {"references": True}, {"kind": "language-model", "figures": [*own, *unigram], "sequence_length": 128, "stride": 128, "scored": {"documents": 5, "tokens": 33_020, "bytes": 120_004, "words": 19_001}},
        files={"metrics.json": "{}\n"}, seconds=7.7, convert="convert", shards="shards",
    )  # fmt: skip
    return made


def make_experiment(root: Path, seed: int = 0, said: str = SAID, licence: str = "CC BY-SA 3.0") -> Made:
    """All of the quickstart: a classifier with its sibling from random weights, a dialogue model, a benchmark."""
    made = make_pretrained(root, seed, licence)
    made.add(
        "reviews", "task", "reviews", {"kind": "classification", "sources": [{"kind": "url", "url": "https://me:secret@example.org/reviews.tsv", "licence": "MIT", "provenance": ""}]},
        {"kind": "classification", "labels": ["negative", "positive"], "rows": {"train": 8058, "valid": 1007, "test": 1007}, "rows by label": {"train": {"negative": 4040, "positive": 4018}, "valid": {"negative": 505, "positive": 502}, "test": {"negative": 499, "positive": 508}}, "dropped": {"exact_duplicate": 12, "near_zero": 483}},
        files={"card.json": "{}\n"}, seconds=3.9,
    )  # fmt: skip
    made.add(
        "chat",
        "task",
        "chat",
        {"kind": "dialogue", "sources": [{"kind": "file", "path": "talks/*.yml", "licence": "BSD", "provenance": ""}]},
        {"kind": "dialogue", "labels": [], "rows": {"train": 1700, "valid": 160, "test": 160}, "dropped": {}},
        seconds=2.5,
    )
    scores = {"sentiment": (0.6713, 0.6708), "sentiment-scratch": (0.6604, 0.6590)}
    for name, init in (("sentiment", "pretrained"), ("sentiment-scratch", "random")):
        _add_classifier(made, name, init, *scores[name])
    _add_dialogue(made, said)
    cells = (
        ("fp32", "full", 9_920.0, 1.0, ""),
        ("fp32", "lora", 13_104.0, 1.32, ""),
        ("bf16", "full", 510.0, 0.051, "bf16 is computed in software on this CPU"),
    )
    rows = [{"precision": p, "method": m, "tokens_per_second": t, "seconds_per_batch": 1024 / t, "peak_memory_mb": 812.4, "ratio": r, "repeats": 3, "batch": 8, "sequence_length": 128, "note": n}
            for p, m, t, r, n in cells]  # fmt: skip
    made.add(
        "benchmark",
        "benchmark",
        "speed",
        {"repeats": 3},
        {"cells": 3},
        measurements={
            "rows": rows,
            "device": "CPU",
            "figures": [
                figure(
                    "training_speed",
                    "train",
                    r["tokens_per_second"],
                    "tokens/s",
                    cell=f"{r['precision']} {r['method']}",
                )
                for r in rows
            ],
        },
        seconds=19.0,
        convert="convert",
        shards="shards",
    )
    return made


def _add_classifier(made: Made, name: str, init: str, accuracy: float, f1: float) -> None:
    rows = [
        {"step": step, "loss": 0.69 - 0.0004 * step + 0.02 * math.sin(step), "learning_rate": 1e-3}
        for step in range(10, 510, 10)
    ]
    rows += [{"step": step, "valid_loss": 0.66 - 0.0001 * step} for step in (252, 504)]
    made.add(
        name, "finetune", name, {"method": "full", "init": init},
        {"task_kind": "classification", "method": "full", "init": init, "labels": ["negative", "positive"], "trainable_parameters": 1_072_130},
        files={"curve.jsonl": "".join(canonical(row) + "\n" for row in rows), "model/model.safetensors": name.encode() * 100}, seconds=41.0, convert="convert", task="reviews",
    )  # fmt: skip
    own = [
        figure("accuracy", "test", accuracy, "", interval=[accuracy - 0.029, accuracy + 0.029]),
        figure("macro_f1", "test", f1, ""),
    ]
    others = [figure("accuracy", "test", 0.5043, "", reference=MAJORITY, interval=[0.473, 0.535]), figure("macro_f1", "test", 0.3352, "", reference=MAJORITY),
              figure("accuracy", "test", 0.8012, "", reference=TFIDF, interval=[0.776, 0.826]), figure("macro_f1", "test", 0.8011, "", reference=TFIDF)]  # fmt: skip
    made.add(
        f"{name}-evaluate", "evaluate", name, {"references": True},
        {"kind": "classification", "figures": [*own, *others], "confusion": {"labels": ["negative", "positive"], "matrix": [[331, 168], [163, 345]]}},
        files={"metrics.json": "{}\n"}, seconds=9.0, finetune=name, task="reviews", convert="convert",
    )  # fmt: skip


def _add_dialogue(made: Made, said: str) -> None:
    rows = [{"step": step, "loss": 4.4 - 0.01 * step, "learning_rate": 1e-3} for step in range(5, 105, 5)] + [
        {"step": 100, "valid_loss": 3.9}
    ]
    made.add(
        "dialogue", "finetune", "dialogue", {"method": "lora", "init": "pretrained"},
        {"task_kind": "dialogue", "method": "lora", "init": "pretrained", "labels": [], "trainable_parameters": 49_152},
        files={"curve.jsonl": "".join(canonical(row) + "\n" for row in rows), "model/adapter_model.safetensors": b"L" * 512}, seconds=28.0, convert="convert", task="chat",
    )  # fmt: skip
    samples = [
        {"messages": [{"role": "user", "content": said}], "answer": "I like the film .", "reference": "Yes, very much."},
        {"messages": [{"role": "user", "content": "What is AI?"}, {"role": "assistant", "content": "A field of study."}, {"role": "user", "content": "你好吗？"}],
         "answer": "I am a computer program , and I do not know what it is that you want me to say .", "reference": "I am fine."},
    ]  # fmt: skip
    made.add(
        "dialogue-evaluate", "evaluate", "dialogue", {"references": True},
        {"kind": "dialogue", "samples": samples, "figures": [figure("perplexity", "test", 48.6, "per answer token"), figure("perplexity", "test", 71.3, "per answer token", reference="before fine-tuning"), figure("repetition", "test", 0.21, "share of trigrams"), figure("answer_length", "test", 8.3, "tokens"), figure("ended_answers", "test", 0.84, "share")]},
        files={"samples.json": json.dumps(samples)}, measurements={"figures": [figure("answer_latency_p50", "test", 131.2, "ms"), figure("answer_latency_p95", "test", 274.03, "ms")]},
        seconds=10.2, finetune="dialogue", task="chat", convert="convert",
    )  # fmt: skip
