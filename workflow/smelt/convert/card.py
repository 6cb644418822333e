"""README.md of an exported model: what it is, what it was trained on, what was measured, how to load it."""

from typing import Any

from smelt.plan.manifest import Manifest, canonical
from smelt.plan.settings.pretraining import Pretrain

HEAD = """\
---
library_name: transformers
pipeline_tag: text-generation
tags:
- smelt
---

# {title}

A {architecture} language model of {parameters:,} parameters, trained from random weights by smelt.

| | |
| --- | --- |
"""

USE = """
```python
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("path/of/this/directory")
model = AutoModelForCausalLM.from_pretrained("path/of/this/directory")
inputs = tokenizer("The history of", return_tensors="pt")
print(tokenizer.decode(model.generate(**inputs, max_new_tokens=40)[0]))
```

The export was compared with the training weights: every tensor bit by bit{rounding}, and the logits on {tokens:,} tokens of
the validation split, which differ by at most {parity:.3g}.

It continues text like that of its corpus. It was not aligned, filtered or tested for any use, and what it says may be
false or offensive.
"""


def card(pretrain: Manifest, tokenizer: Manifest, shards: Manifest, facts: dict[str, Any]) -> str:
    """The whole file; the same for the same manifests."""
    settings = Pretrain.model_validate(pretrain.settings)
    model = settings.model
    splits = shards.facts["splits"]
    rows = {
        "made from": f"pretrain/{pretrain.id}, tokenizer/{tokenizer.id}, shards/{shards.id}",
        "shape": f"{model.num_hidden_layers} layers, width {model.hidden_size}, {model.num_attention_heads} heads, "
        f"up to {model.max_position_embeddings} tokens",
        "tokenizer": f"{tokenizer.facts['kind']}, {tokenizer.facts['vocab_size']:,} pieces",
        "training text": f"{splits['train']['documents']:,} documents, {splits['train']['bytes']:,} bytes, "
        f"{splits['train']['tokens']:,} tokens",
        "trained on": f"{pretrain.facts['tokens']:,} tokens in {pretrain.facts['steps']:,} steps "
        f"({pretrain.facts['epochs']:g} epochs)",
        "weights": f"{facts['dtype']}, input and output embeddings {'tied' if facts['tied'] else 'not tied'}",
    }
    for figure in pretrain.facts["figures"]:
        rows[f"{figure['metric']} ({figure['split']})"] = f"{figure['value']:.4g} {figure['unit']}"
    head = HEAD.format(title=pretrain.id, architecture=model.architecture.upper(), parameters=facts["parameters"])
    table = "".join(f"| {name} | {value} |\n" for name, value in rows.items())
    rounding = "" if facts["dtype"] == "float32" else f" after rounding to {facts['dtype']}"
    use = USE.format(rounding=rounding, tokens=facts["parity_tokens"], parity=facts["parity"])
    return f"{head}{table}{use}\nSettings of the training: `{canonical(settings.pretraining.model_dump())}`\n"
