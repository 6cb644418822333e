"""Convert trained weights into a Hugging Face directory, and prove that it computes the same.

The directory is written with transformers and read back as a user would read it. Every tensor is compared bit by bit, and
the logits of the network rebuilt from the training weights with those of the loaded one, on text of the valid split.
"""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from smelt.data.tokens import TokenStream
from smelt.plan.errors import DataError
from smelt.plan.job import Job, Product, figure
from smelt.plan.manifest import Manifest
from smelt.plan.settings.convert import Convert
from smelt.plan.settings.pretraining import Pretrain
from smelt.training.compute import prepare

if TYPE_CHECKING:
    from transformers import PreTrainedModel

DIRECTORY = "hf"


def run(job: Job) -> Product:
    """Export, reload, compare. Raises ParityError if anything differs."""
    settings = Convert.model_validate(job.settings)
    pretrain, tokenizer, shards = job.input("pretrain"), job.input("tokenizer"), job.input("shards")
    trained = Pretrain.model_validate(pretrain.settings)
    stream = TokenStream(shards, "valid", tokenizer.id)
    sequences = stream.sequences(min(trained.pretraining.sequence_length, len(stream)))
    count = min(len(sequences), max(1, settings.parity_tokens // sequences.length))
    rows = sequences.__getitems__([i * len(sequences) // count for i in range(count)])
    if pretrain.upstream["tokenizer"] != f"tokenizer/{tokenizer.id}":
        raise DataError(
            f"{pretrain.path}: trained with {pretrain.upstream['tokenizer']}, not with tokenizer/{tokenizer.id}"
        )
    prepare(settings.cpu_threads)
    from smelt.convert import parity
    from smelt.convert.card import card
    from smelt.models.network import build, configuration, parameter_count
    from smelt.models.weights import read_weights

    facts = tokenizer.facts
    network = build(configuration(trained.model, facts["vocab_size"], facts["special_tokens"]), seed=0)
    read_weights(network, pretrain, "weights")
    reference = parity.logits(network, rows)
    directory = job.directory / DIRECTORY
    export(network, settings, tokenizer, directory)
    loaded = parity.reload(directory, network)
    parity.check_tokenizer(directory, loaded)
    difference, tolerance = parity.compare(reference, loaded, rows, settings.parity_tolerance)
    job.say(
        f"logits of the export differ by at most {difference:.3g} on {rows.size:,} tokens ({tolerance:.3g} allowed)"
    )
    found = {
        "parity": difference,
        "parity_tolerance": tolerance,
        "parity_tokens": int(rows.size),
        "tied": parity.is_tied(loaded),
        "parameters": parameter_count(network),
        "dtype": settings.dtype,
        "figures": [figure("logit difference", "valid", difference)],
    }
    (directory / "README.md").write_text(card(pretrain, tokenizer, shards, found), encoding="utf-8")
    return Product([f"{DIRECTORY}/{path.name}" for path in sorted(directory.iterdir())], found)


def export(network: "PreTrainedModel", settings: Convert, tokenizer: Manifest, directory: Path) -> None:
    """Write weights (sharded), configurations and tokenizer into `directory`. `network` is rounded to the exported type."""
    import torch
    from transformers import GenerationConfig
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    config = network.config
    network.to(getattr(torch, settings.dtype))
    config.dtype = settings.dtype
    network.generation_config = GenerationConfig(
        bos_token_id=config.bos_token_id, eos_token_id=config.eos_token_id, pad_token_id=config.pad_token_id
    )
    network.save_pretrained(directory, max_shard_size=settings.max_shard_size)
    for name in tokenizer.files:
        if name.startswith("hf/"):
            shutil.copyfile(tokenizer.file(name), directory / Path(name).name)
