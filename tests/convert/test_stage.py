"""The export computes what was trained, loads without us, and is refused when it is off by anything."""

import json
import math

import pytest
import torch
from safetensors.torch import load_file, save_file

import small_shards
from smelt.convert import stage
from smelt.convert.parity import ParityError
from smelt.data.tokens import TokenStream
from smelt.plan.errors import DataError
from smelt.plan.manifest import Manifest

SETTINGS = {"cpu_threads": 1, "parity_tokens": 512}


@pytest.fixture(scope="module")
def upstream(session_results):
    return small_shards.upstream(session_results)


def trained(results, upstream, label="to-convert", **model):
    settings = small_shards.settings(model, max_steps=12, num_train_epochs=None)
    return {"pretrain": results.run("pretrain", label, settings, **upstream), **upstream}


@pytest.fixture(scope="module")
def nodes(session_results, upstream):
    return trained(session_results, upstream)


@pytest.fixture(scope="module")
def converted(session_results, nodes):
    return session_results.run("convert", "plain", SETTINGS, **nodes)


def load(manifest, **more):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(manifest.directory / "hf", **more).eval()


def tensors(folder):
    found = {}
    for path in sorted(folder.glob("*.safetensors")):
        found |= load_file(path)
    return found


def test_the_export_is_the_trained_network_to_the_bit(converted, nodes):
    before, after = tensors(nodes["pretrain"].directory / "weights"), tensors(converted.directory / "hf")
    assert set(before) == set(after)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert min(float(tensor.norm()) for name, tensor in after.items() if name.endswith("weight")) > 0
    assert converted.facts["parity"] == 0
    assert converted.facts["parity_tokens"] == 512
    assert converted.facts["tied"] is True


def test_it_loads_and_measures_the_validation_loss_of_the_training(converted, nodes):
    model = load(converted)
    valid = TokenStream(nodes["shards"], "valid").sequences(32)
    rows = torch.from_numpy(valid.__getitems__([i * len(valid) // 12 for i in range(12)]))
    with torch.no_grad():
        loss = model(input_ids=rows, labels=rows).loss.item()
    assert loss == pytest.approx(nodes["pretrain"].facts["valid_loss"], abs=1e-5)
    assert loss < math.log(small_shards.VOCABULARY)


def test_it_writes_text_with_its_own_tokenizer(converted):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(converted.directory / "hf")
    model = load(converted)
    inputs = tokenizer("the first of", return_tensors="pt")
    written = model.generate(**inputs, max_new_tokens=8, do_sample=False)
    assert tokenizer.decode(written[0]).startswith("the first of")
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id == 2


def test_two_conversions_give_the_same_bytes(converted, session_results, nodes):
    again = session_results.run("convert", "again", SETTINGS, **nodes)
    assert again.files == converted.files
    assert again.facts == converted.facts


def test_many_small_files_hold_the_same_as_one(converted, session_results, nodes):
    made = session_results.run("convert", "sharded", {**SETTINGS, "max_shard_size": "40KB"}, **nodes)
    assert sum(name.endswith(".safetensors") for name in made.files) > 2
    one, many = tensors(converted.directory / "hf"), tensors(made.directory / "hf")
    assert set(one) == set(many)
    assert all(torch.equal(one[name], many[name]) for name in one)
    assert torch.equal(load(made).lm_head.weight, load(converted).lm_head.weight)


def test_ties_stay_as_they_were_trained(converted, session_results, upstream):
    tied = load(converted)
    assert tied.lm_head.weight is tied.transformer.wte.weight
    loose = session_results.run(
        "convert", "untied", SETTINGS, **trained(session_results, upstream, "untied", tie_word_embeddings=False)
    )
    model = load(loose)
    assert model.lm_head.weight is not model.transformer.wte.weight
    assert not torch.equal(model.lm_head.weight, model.transformer.wte.weight)
    assert loose.facts["tied"] is False
    assert loose.facts["parameters"] == converted.facts["parameters"] + 400 * 32


def test_bfloat16_rounds_each_weight_once_and_says_how_far_logits_move(session_results, nodes):
    made = session_results.run("convert", "half", {**SETTINGS, "dtype": "bfloat16"}, **nodes)
    before, after = tensors(nodes["pretrain"].directory / "weights"), tensors(made.directory / "hf")
    assert all(torch.equal(before[name].to(torch.bfloat16), after[name]) for name in before)
    assert load(made, dtype="auto").dtype == torch.bfloat16
    assert 0 < made.facts["parity"] <= made.facts["parity_tolerance"]
    with pytest.raises(ParityError, match=r"logits differ .* 1e-06 is allowed \(convert\.parity_tolerance\)"):
        session_results.run("convert", "strict", {**SETTINGS, "dtype": "bfloat16", "parity_tolerance": 1e-6}, **nodes)


def perturb(tensors):
    tensors["transformer.h.1.mlp.c_fc.weight"][3, 5] += 1e-3


def zero(tensors):
    tensors["transformer.h.0.attn.c_attn.weight"].zero_()


def swap(tensors):
    first, second = "transformer.h.0.ln_1.weight", "transformer.h.1.ln_1.weight"
    tensors[first], tensors[second] = tensors[second], tensors[first]


def drop(tensors):
    del tensors["transformer.h.0.ln_2.bias"]


def add(tensors):
    tensors["transformer.h.2.ln_2.bias"] = torch.zeros(32)


def untie(tensors):
    tensors["lm_head.weight"] = torch.zeros_like(tensors["transformer.wte.weight"])


def shorten(tensors):
    tensors["transformer.wpe.weight"] = tensors["transformer.wpe.weight"][:16].clone()


def spoil(tensors):
    tensors["transformer.ln_f.weight"][0] = math.nan


@pytest.mark.parametrize(
    ("fault", "named"),
    [
        (perturb, r"transformer\.h\.1\.mlp\.c_fc\.weight is not what was trained"),
        (zero, r"transformer\.h\.0\.attn\.c_attn\.weight is not .* norm 0 instead"),
        (swap, r"ln_1\.weight is not what was trained"),
        (drop, r"missing keys when loaded: \['transformer\.h\.0\.ln_2\.bias'\]"),
        (add, r"unexpected keys when loaded: \['transformer\.h\.2\.ln_2\.bias'\]"),
        (untie, r"embeddings should be one tensor"),
        (shorten, r"mismatched keys when loaded: .*transformer\.wpe\.weight"),
        (spoil, r"transformer\.ln_f\.weight is not what was trained"),
    ],
)
def test_an_export_that_is_off_by_anything_fails_the_stage(session_results, nodes, monkeypatch, fault, named):
    """The fault is put into the file between writing and reading it back."""
    real = stage.export

    def faulty(network, settings, tokenizer, directory):
        real(network, settings, tokenizer, directory)
        path = directory / "model.safetensors"
        found = load_file(path)
        fault(found)
        save_file(found, path, metadata={"format": "pt"})

    monkeypatch.setattr(stage, "export", faulty)
    with pytest.raises(ParityError, match=rf"{session_results.root}/convert/{fault.__name__}-.*/hf: .*({named})"):
        session_results.run("convert", fault.__name__, SETTINGS, **nodes)
    out = next((session_results.root / "convert").glob(f"{fault.__name__}-*"))
    assert not (out / "manifest.json").exists()


def test_logits_alone_would_tell_as_well(nodes, converted):
    """The check behind the comparison of tensors: a network of other activations has the same tensors."""
    from smelt.convert import parity

    valid = TokenStream(nodes["shards"], "valid").sequences(32)
    rows = valid.__getitems__(list(range(8)))
    reference = parity.logits(load(converted), rows)
    assert parity.compare(reference, load(converted), rows, None)[0] == 0
    other = load(converted, activation_function="relu")
    with pytest.raises(ParityError, match="logits differ"):
        parity.compare(reference, other, rows, None)
    with pytest.raises(ParityError, match="by up to nan"):
        parity.compare(reference * math.nan, load(converted), rows, None)


def test_a_tokenizer_of_another_size_is_noticed(converted, tmp_path):
    import shutil

    from smelt.convert import parity

    folder = tmp_path / "hf"
    shutil.copytree(converted.directory / "hf", folder)
    about = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**about, "extra_special_tokens": ["<more>"]}))
    with pytest.raises(ParityError, match="vocabulary is 401 in the tokenizer and 400 in the network"):
        parity.check_tokenizer(folder, load(converted))


def test_a_tokenizer_that_the_network_was_not_trained_with_is_refused(session_results, nodes):
    import shutil

    other = session_results.root / "tokenizer" / "stranger-0000000000"
    shutil.copytree(nodes["tokenizer"].directory, other)
    (other / "manifest.json").write_text(json.dumps({**nodes["tokenizer"].data, "node": other.name}))
    stranger = Manifest.read(other / "manifest.json")
    with pytest.raises(DataError, match="not with stranger-0000000000"):
        session_results.run("convert", "stranger", SETTINGS, **{**nodes, "tokenizer": stranger})


def test_the_card_says_what_it_is_and_what_was_measured(converted, nodes):
    card = converted.file("hf/README.md").read_text()
    facts = nodes["pretrain"].facts
    for wanted in (
        f"{facts['parameters']:,} parameters",
        f"pretrain/{nodes['pretrain'].id}",
        f"{facts['tokens']:,} tokens in 12 steps",
        f"{facts['valid_loss']:.4g} nats per token",
        "40 documents",
        "differ by at most 0.",
        '"learning_rate":0.003',
    ):
        assert wanted in card
    assert card.startswith("---\nlibrary_name: transformers\n")


def test_the_directory_is_complete(converted):
    assert set(converted.files) == {
        f"hf/{name}"
        for name in (
            "README.md", "config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
        )
    }  # fmt: skip
