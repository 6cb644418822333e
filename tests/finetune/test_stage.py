"""Fine-tuning as a stage: that it learns, what it leaves, and that it leaves the same bytes again."""

import json

import pytest

import tiny
from smelt.plan.errors import DataError


def figures(node):
    return {figure["metric"]: figure["value"] for figure in node.facts["figures"]}


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_classifier_learns_the_word_that_decides(finetune, upstream):
    node = finetune(upstream)
    assert figures(node)["accuracy"] > 0.9
    assert node.facts["labels"] == ["negative", "positive"]


def test_the_saved_classifier_predicts_as_the_figures_say_with_transformers_alone(finetune, upstream):
    from transformers import pipeline

    from smelt.data.documents import read_documents

    node = finetune(upstream)
    classify = pipeline("text-classification", str(node.directory / "model"), device="cpu")
    found = list(read_documents(upstream["task"].file("valid.jsonl.zst")))
    predicted = [answer["label"] for answer in classify([row["text"] for row in found])]
    right = sum(label == row["label"] for label, row in zip(predicted, found, strict=True))
    assert right / len(found) == pytest.approx(figures(node)["accuracy"])


@pytest.mark.parametrize("kind", ["labelled", "dialogue"])
@pytest.mark.parametrize("method", ["full", "lora"])
def test_two_runs_in_different_folders_leave_the_same_bytes(tmp_path, results, finetune, kind, method):
    upstream = {"convert": tiny.converted(results.root), "task": getattr(tiny, kind)(results.root)}
    first = finetune(upstream, method=method, num_train_epochs=1)
    other = type(results)(tmp_path / "other place" / "results")
    settings = {**first.settings}
    copies = {"convert": tiny.converted(other.root), "task": getattr(tiny, kind)(other.root)}
    second = other.run("finetune", "tune", settings, **copies)
    assert first.path.read_bytes() == second.path.read_bytes()
    assert str(tmp_path).encode() not in b"".join((first.directory / name).read_bytes() for name in first.files)


def test_lora_leaves_adapters_that_work_on_the_untouched_base(finetune, talk):
    import torch
    from peft import PeftModel
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM

    node = finetune(
        talk,
        method="lora",
        learning_rate=2e-2,
        lora={"target_modules": ["c_proj", "c_fc", "c_attn"]},
        num_train_epochs=1,
    )
    weights = load_file(node.directory / "model" / "adapter_model.safetensors")
    assert all(tensor.numel() and tensor.abs().sum() > 0 for tensor in weights.values())
    assert node.facts["trainable_parameters"] == sum(tensor.numel() for tensor in weights.values())
    assert node.facts["trainable_parameters"] < node.facts["parameters"] / 2
    base = AutoModelForCausalLM.from_pretrained(talk["convert"].directory / "hf").eval()
    ids = torch.tensor([[5, 6, 7, 8]])
    before = base(ids).logits.detach()
    adapted = PeftModel.from_pretrained(base, node.directory / "model").eval()
    assert (adapted(ids).logits - before).abs().max() > 1e-3
    config = json.loads((node.directory / "model" / "adapter_config.json").read_text())
    # peft writes a set, whose order changes from process to process.
    assert config["target_modules"] == ["c_attn", "c_fc", "c_proj"]
    assert config["base_model_name_or_path"] == f"convert/{talk['convert'].id}/hf"


def test_dialogue_learns_answers_and_how_they_end(finetune, talk):
    node = finetune(talk, num_train_epochs=6, train_batch_size=4)
    losses = [row["valid_loss"] for row in rows(node.directory / "curve.jsonl") if "valid_loss" in row]
    # The answer is "yes it was", a word out of twelve, and the end: ln(12) / 5 without reading the question.
    assert losses[-1] < 1.0 < losses[0]
    assert node.facts["data"]["train"]["answers"] == 127


def test_the_chat_template_is_stored_with_the_model(finetune, talk):
    from transformers import AutoTokenizer

    node = finetune(talk, max_steps=1)
    words = AutoTokenizer.from_pretrained(node.directory / "model")
    text = words.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False, add_generation_prompt=True)
    assert text == "Hi</s><s>"


def test_what_a_launcher_left_in_the_environment_brings_no_companions(finetune, upstream, monkeypatch):
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "PMI_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    assert figures(finetune(upstream))["accuracy"] > 0.9


def test_random_weights_are_other_weights_and_are_named_in_the_facts(finetune, upstream):
    pretrained = finetune(upstream, max_steps=1, learning_rate=1e-9, warmup_steps=0)
    random = finetune(upstream, "scratch", init="random", max_steps=1, learning_rate=1e-9, warmup_steps=0)
    from safetensors.torch import load_file

    base = load_file(upstream["convert"].directory / "hf" / "model.safetensors")["transformer.wte.weight"]
    same = load_file(pretrained.directory / "model" / "model.safetensors")["transformer.wte.weight"]
    other = load_file(random.directory / "model" / "model.safetensors")["transformer.wte.weight"]
    assert (same - base).abs().max() < 1e-6 < 1e-2 < (other - base).abs().max()
    assert (pretrained.facts["init"], random.facts["init"]) == ("pretrained", "random")


def test_the_best_epoch_is_kept_and_not_the_last(finetune, upstream):
    node = finetune(upstream, num_train_epochs=6, learning_rate=3e-2, lr_scheduler_type="constant")
    validations = [row for row in rows(node.directory / "curve.jsonl") if "valid_accuracy" in row]
    best = max(validations, key=lambda row: row["valid_accuracy"])
    assert node.facts["kept_step"] == best["step"]
    assert figures(node)["accuracy"] == best["valid_accuracy"]


def test_patience_ends_a_training_without_gain(finetune, upstream):
    node = finetune(upstream, num_train_epochs=30, learning_rate=1e-9, early_stopping_patience=2)
    epochs = [row["epoch"] for row in rows(node.directory / "curve.jsonl") if "epoch" in row]
    assert epochs[-1] < 30
    assert node.facts["kept_epoch"] <= epochs[-1] - 2


def test_metrics_can_be_watched(finetune, upstream):
    node = finetune(upstream)
    lines = rows(node.directory / "state" / "metrics.jsonl")
    assert set(lines[0]) == {"step", "total", "tokens", "loss", "learning_rate", "tokens_per_second", "time"}
    assert lines[-1]["step"] == lines[-1]["total"] == 72
    assert "state/metrics.jsonl" not in node.files


def test_truncated_texts_are_counted(finetune, upstream):
    node = finetune(upstream, max_length=6, max_steps=1)
    assert 0 < node.facts["data"]["train"]["truncated"] < 384


def broken(results, **changed):
    return {"convert": tiny.converted(results.root), "task": tiny.labelled(results.root, **changed)}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"train": []}, "train split has no row"),
        ({"valid": []}, "valid split has no row"),
        ({"train": [{"id": "1", "text": "good", "label": "positive"}]}, "only the label 'positive'"),
        (
            {"valid": [{"id": "v-1", "text": "so so", "label": "mixed"}]},
            "no row of the train split has the label 'mixed'",
        ),
    ],
)
def test_data_that_cannot_be_learnt_from_is_refused_with_its_place(results, finetune, changed, message):
    upstream = broken(results, **changed)
    with pytest.raises(DataError, match=message) as caught:
        finetune(upstream)
    assert "task/opinions-0000000000" in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_length": 49}, "max_length is 49, but the network takes at most 48"),
        ({"method": "lora", "lora": {"target_modules": ["q_proj"]}}, "no layer named q_proj"),
        ({"precision": "fp16"}, "fp16 needs a GPU"),
        ({"learning_rate": 1e30, "max_grad_norm": 0}, "lower learning_rate"),
    ],
)
def test_settings_that_cannot_work_are_refused_with_the_way_out(finetune, upstream, settings, message):
    with pytest.raises(DataError, match=message):
        finetune(upstream, **settings)


def test_dialogues_of_which_none_fits_are_refused(finetune, talk):
    with pytest.raises(DataError, match="none of the 64 dialogues of the train split can be used with max_length 4"):
        finetune(talk, max_length=4)
