"""What is kept of a fine-tuning: `model/`, the same bytes for the same training, wherever it ran."""

import json
from pathlib import Path
from typing import Any

from smelt.plan.manifest import Manifest, to_json
from smelt.plan.settings.finetuning import Finetuning


def save_model(
    model: Any, tokenizer: Any, directory: Path, convert: Manifest, settings: Finetuning, kind: str
) -> list[str]:
    """Write model (or adapters), tokenizer and README.md; returns their names relative to the node's folder."""
    directory.mkdir()
    model.save_pretrained(directory)
    if settings.method == "lora":
        _without_paths(directory / "adapter_config.json", convert)
    tokenizer.save_pretrained(directory)
    (directory / "README.md").write_text(_readme(settings, kind, convert), encoding="utf-8")
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    return [str(path.relative_to(directory.parent)) for path in files]


def _without_paths(path: Path, convert: Manifest) -> None:
    """peft writes the absolute path of the base model, and sets in the order of their hashes."""
    config = json.loads(path.read_text(encoding="utf-8"))
    for name, value in config.items():
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            config[name] = sorted(value)
    config["base_model_name_or_path"] = f"{convert.stage}/{convert.id}/hf"
    path.write_text(to_json(config), encoding="utf-8")


def _readme(settings: Finetuning, kind: str, convert: Manifest) -> str:
    base = f"{convert.stage}/{convert.id}/hf"
    auto = "AutoModelForSequenceClassification" if kind == "classification" else "AutoModelForCausalLM"
    if settings.method == "lora":
        load = f"""from peft import PeftModel

base = {auto}.from_pretrained("results/{base}")
model = PeftModel.from_pretrained(base, "model")"""
        if kind == "classification":
            load = load.replace('hf")', 'hf", num_labels=len(labels))')
    else:
        load = f'model = {auto}.from_pretrained("model")'
    start = "its pretrained weights" if settings.init == "pretrained" else "random weights"
    what = "all weights" if settings.method == "full" else "low-rank adapters"
    return f"""# A model fine-tuned for {kind}

Base: `{base}`, from {start}; {what} were trained.

```python
from transformers import AutoTokenizer, {auto}
{load}
tokenizer = AutoTokenizer.from_pretrained("model")
```

{_USE[kind]}
"""


_USE = {
    "classification": "`tokenizer(text)` puts the end token after the text: the label is read there. `model.config.id2label` names the labels.",
    "dialogue": "Messages become a prompt with `tokenizer.apply_chat_template(messages, add_generation_prompt=True)`; "
    "an answer ends with the end token.",
}
