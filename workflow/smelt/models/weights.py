"""Weights on disk: safetensors, in files of limited size, the same bytes for the same numbers.

Named as transformers names them: `model.safetensors`, or `model-00001-of-00003.safetensors` … with
`model.safetensors.index.json`, so that any tool that reads a Hugging Face directory reads them.
"""

from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from smelt.models.network import untied
from smelt.plan.errors import DataError
from smelt.plan.manifest import Manifest, to_json

INDEX = "model.safetensors.index.json"
FILE_BYTES = 5_000_000_000
"""Limit of one file; what transformers cuts at as well."""


def write_weights(weights: dict[str, torch.Tensor], directory: Path, file_bytes: int = FILE_BYTES) -> list[str]:
    """Write `weights` (no two of which may share memory) in the order of their names; returns the names of the files.

    A tensor larger than `file_bytes` gets a file of its own.
    """
    directory.mkdir(parents=True, exist_ok=True)
    groups: list[list[str]] = [[]]
    room = file_bytes
    for name in sorted(weights):
        size = weights[name].nbytes
        if groups[-1] and size > room:
            groups.append([])
            room = file_bytes
        groups[-1].append(name)
        room -= size
    if len(groups) == 1:
        files = ["model.safetensors"]
    else:
        files = [f"model-{i:05}-of-{len(groups):05}.safetensors" for i in range(1, len(groups) + 1)]
    for file, names in zip(files, groups, strict=True):
        tensors = {name: weights[name].detach().cpu().contiguous() for name in names}
        save_file(tensors, directory / file, metadata={"format": "pt"})
    if len(groups) == 1:
        return files
    places = {name: file for file, names in zip(files, groups, strict=True) for name in names}
    total = sum(tensor.nbytes for tensor in weights.values())
    (directory / INDEX).write_text(to_json({"metadata": {"total_size": total}, "weight_map": places}), encoding="utf-8")
    return [*files, INDEX]


def read_weights(network: torch.nn.Module, manifest: Manifest, folder: str) -> None:
    """Fill `network` from the safetensors that `manifest` lists in `folder`.

    Raises:
        DataError: if a file is not what the manifest lists or is no safetensors, or names and shapes are not exactly those of the network.
    """
    wanted = untied(network)
    missing = set(wanted)
    for file in sorted(
        name for name in manifest.files if name.startswith(f"{folder}/") and name.endswith(".safetensors")
    ):
        path = manifest.file(file, content=True)
        try:
            with safe_open(path, framework="pt") as source:
                for name in source.keys():  # noqa: SIM118 - not a dict
                    tensor = source.get_tensor(name)
                    if name not in wanted or wanted[name].shape != tensor.shape:
                        expected = f"{tuple(wanted[name].shape)}" if name in wanted else "nothing of this name"
                        raise DataError(f"{path}: {name} {tuple(tensor.shape)}, but the network has {expected}")
                    wanted[name].copy_(tensor)
                    missing.discard(name)
        except SafetensorError as error:
            raise DataError(f"{path}: damaged ({error}); snakemake makes this node again if you delete it") from None
    if missing:
        raise DataError(f"{manifest.path}: {folder}/ lacks weights of the network: {', '.join(sorted(missing))}")
