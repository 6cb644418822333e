"""Weights on disk: what is written comes back to the bit, and what does not fit is named."""

import shutil

import pytest
import torch

import tiny
from smelt.models.loading import load_base, load_finetuned
from smelt.models.network import build, configuration, untied
from smelt.models.weights import INDEX, read_weights, write_weights
from smelt.plan.errors import DataError
from smelt.plan.settings.model import Model

SPECIAL = {"pad": 0, "bos": 1, "eos": 2}


def network(seed=0, **more):
    settings = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 16}
    return build(configuration(Model(**{**settings, **more}), 50, SPECIAL), seed)


def written(root, model, file_bytes=10**9, weights=None):
    """A pretrain node that holds the weights of `model` (or `weights`)."""
    folder = root / "pretrain" / "made-0000000000" / "weights"
    files = write_weights(weights or untied(model), folder, file_bytes)
    return files, tiny.node(root, "pretrain", "made", {})


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("file_bytes", [10**9, 20_000, 1])
def test_weights_come_back_to_the_bit_from_one_file_or_many(tmp_path, tied, file_bytes):
    model = network(tie_word_embeddings=tied)
    files, node = written(tmp_path, model, file_bytes)
    assert (INDEX in files) == (file_bytes < 10**9)
    again = network(seed=9, tie_word_embeddings=tied)
    read_weights(again, node, "weights")
    first, second = untied(model), untied(again)
    assert all(torch.equal(first[name], second[name]) for name in first)
    same = again.get_input_embeddings().weight is again.get_output_embeddings().weight
    assert same == tied


def test_no_file_is_larger_than_allowed_unless_one_tensor_is(tmp_path):
    files, node = written(tmp_path, network(), 20_000)
    sizes = [node.files[f"weights/{file}"]["size"] for file in files if file != INDEX]
    assert len(sizes) > 3
    assert max(sizes) < 20_000 + 4096  # the header


def test_transformers_reads_the_files_itself(tmp_path):
    from transformers import AutoModelForCausalLM

    model = network()
    _, node = written(tmp_path, model, 20_000)
    model.config.save_pretrained(node.directory / "weights")
    loaded = AutoModelForCausalLM.from_pretrained(node.directory / "weights")
    assert all(torch.equal(tensor, untied(loaded)[name]) for name, tensor in untied(model).items())


def test_equal_weights_are_equal_bytes(tmp_path):
    model = network()
    shuffled = dict(reversed(untied(model).items()))
    first = written(tmp_path / "first", model)[1]
    second = written(tmp_path / "second", model, weights=shuffled)[1]
    assert first.files == second.files


def test_a_missing_tensor_is_named(tmp_path):
    weights = untied(network())
    del weights["transformer.ln_f.bias"]
    with pytest.raises(DataError, match=r"lacks weights of the network: transformer\.ln_f\.bias"):
        read_weights(network(), written(tmp_path, network(), weights=weights)[1], "weights")


def test_a_tensor_too_many_or_of_another_shape_is_named(tmp_path):
    extra = {**untied(network()), "transformer.surprise": torch.zeros(3)}
    with pytest.raises(DataError, match=r"transformer\.surprise \(3,\), but the network has nothing of this name"):
        read_weights(network(), written(tmp_path / "extra", network(), weights=extra)[1], "weights")
    with pytest.raises(DataError, match=r"transformer\.wpe\.weight \(16, 32\), but the network has \(8, 32\)"):
        read_weights(network(max_position_embeddings=8), written(tmp_path / "shape", network())[1], "weights")


def test_a_damaged_file_is_named(tmp_path):
    _, node = written(tmp_path, network())
    path = node.directory / "weights" / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[8:40] = b"x" * 32  # within the header
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"model\.safetensors: content differs"):
        read_weights(network(), node, "weights")
    with pytest.raises(DataError, match=r"model\.safetensors: damaged"):
        read_weights(network(), tiny.node(tmp_path, "pretrain", "made", {}), "weights")


def flip(path):
    content = bytearray(path.read_bytes())
    content[-5] ^= 1  # within a tensor: nothing but the checksum tells
    path.write_bytes(content)


def test_a_flipped_byte_of_weights_is_refused_by_name(tmp_path):
    _, node = written(tmp_path, network())
    flip(node.directory / "weights" / "model.safetensors")
    with pytest.raises(DataError, match=r"weights/model\.safetensors: content differs"):
        read_weights(network(), node, "weights")


def test_a_flipped_byte_of_a_converted_or_a_finetuned_model_is_refused_by_name(tmp_path):
    convert = tiny.converted(tmp_path)
    shutil.copytree(convert.directory / "hf", tmp_path / "finetune" / "tuned-0000000000" / "model")
    finetune = tiny.node(tmp_path, "finetune", "tuned", {"labels": [], "method": "full"})
    load_base(convert, [], 0)
    load_finetuned(finetune, convert, 0)
    flip(convert.directory / "hf" / "model.safetensors")
    flip(finetune.directory / "model" / "model.safetensors")
    with pytest.raises(DataError, match=r"hf/model\.safetensors: content differs"):
        load_base(convert, [], 0)
    with pytest.raises(DataError, match=r"model/model\.safetensors: content differs"):
        load_finetuned(finetune, convert, 0)
