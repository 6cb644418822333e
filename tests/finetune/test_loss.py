"""What is minimised: answers and their ends, each token the same weight however a batch is cut into pieces."""

import json

import pytest
from safetensors.torch import load_file

import tiny
from smelt.data.batches import Examples, batches_of_epoch, pad_batch
from smelt.data.classification import encode_texts
from smelt.data.dialogue import encode_dialogues, store_template
from smelt.data.documents import read_documents


def losses(node):
    lines = (node.directory / "curve.jsonl").read_text().splitlines()
    return [row["loss"] for row in map(json.loads, lines) if "loss" in row]


@pytest.mark.parametrize("kind", ["labelled", "dialogue"])
def test_accumulation_of_ragged_micro_batches_changes_nothing(results, finetune, kind):
    upstream = {"convert": tiny.converted(results.root, dropout=0.0), "task": getattr(tiny, kind)(results.root, 64)}
    settings = {"train_batch_size": 8, "max_steps": 6, "logging_steps": 1, "max_grad_norm": 0.1, "learning_rate": 1e-3}
    nodes = [finetune(upstream, f"by{size}", options={"micro_batch": size}, **settings) for size in (8, 2, 3)]
    whole = load_file(nodes[0].directory / "model" / "model.safetensors")
    for node in nodes[1:]:
        assert losses(node) == pytest.approx(losses(nodes[0]), abs=1e-6)
        cut = load_file(node.directory / "model" / "model.safetensors")
        # AdamW divides by the root of the squared gradient, which magnifies rounding where a gradient is near 0.
        assert max(float((cut[name] - whole[name]).abs().max()) for name in whole) < 2e-5


@pytest.mark.parametrize("kind", ["labelled", "dialogue"])
def test_the_first_loss_is_that_of_the_definition(results, finetune, kind):
    """By hand, one example at a time without padding; transformers' Trainer alone gives (L-1)/L of it for GPT-2."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    upstream = {"convert": tiny.converted(results.root, dropout=0.0), "task": getattr(tiny, kind)(results.root, 64)}
    node = finetune(upstream, train_batch_size=8, max_steps=1, logging_steps=1, learning_rate=1e-9, warmup_steps=0)
    if kind == "labelled":
        # The head is new and near zero, so all labels are about as likely.
        assert losses(node)[0] == pytest.approx(0.693, abs=0.05)
        return
    hf = upstream["convert"].directory / "hf"
    model, words = AutoModelForCausalLM.from_pretrained(hf).eval(), AutoTokenizer.from_pretrained(hf)
    data = encode_dialogues(words, list(read_documents(upstream["task"].file("train.jsonl.zst"))), 48)
    nats = count = 0
    for index in batches_of_epoch(Examples(data).lengths, 8, seed=42, epoch=0)[0]:
        log = torch.log_softmax(model(torch.tensor([data.ids[index]])).logits[0], dim=-1)
        for place, label in enumerate(data.labels[index]):
            if label != -100:
                nats -= float(log[place - 1, label].detach())
                count += 1
    assert losses(node)[0] == pytest.approx(nats / count, abs=1e-5)


def test_every_answer_counts_with_its_end_and_nothing_else_does(results):
    words = tiny.tokenizer()
    task = tiny.dialogue(results.root)
    found = list(read_documents(task.file("train.jsonl.zst")))
    data = encode_dialogues(words, found, 48)
    assert words.pad_token_id != words.eos_token_id
    answers = 0
    for ids, labels in zip(data.ids, data.labels, strict=True):
        assert labels[0] == -100 and len(ids) == len(labels)
        counted, current = [], []
        for place, label in enumerate(labels):
            assert label in (-100, ids[place])
            if label != -100:
                current.append(label)
            if current and (label == -100 or place == len(labels) - 1):
                counted.append(current)
                current = []
        assert all(answer[-1] == words.eos_token_id for answer in counted)
        assert all(words.decode(answer[:-1]).startswith("yes it was ") for answer in counted)
        answers += len(counted)
    assert answers == data.counts["answers"] == sum(len(row["messages"]) // 2 for row in found)


def test_training_sees_the_ids_that_the_stored_template_gives(tmp_path):
    from transformers import AutoTokenizer

    words = tiny.tokenizer()
    store_template(words)
    messages = [
        {"role": "user", "content": "we saw the film"},
        {"role": "assistant", "content": "yes it was good"},
        {"role": "user", "content": "and the town"},
        {"role": "assistant", "content": "bad"},
    ]
    words.save_pretrained(tmp_path)
    words = AutoTokenizer.from_pretrained(tmp_path)
    data = encode_dialogues(words, [{"id": "1", "messages": messages}], 48)
    assert data.ids == [words.apply_chat_template(messages, tokenize=True, return_dict=False)]
    prompt = words.apply_chat_template(messages[:1], tokenize=True, add_generation_prompt=True, return_dict=False)
    assert data.ids[0][: len(prompt)] == prompt


def test_long_dialogues_are_cut_before_a_question_and_lose_no_answer():
    words = tiny.tokenizer()
    pair = [{"role": "user", "content": "was it good"}, {"role": "assistant", "content": "yes it was good"}]
    length = len(encode_dialogues(words, [{"id": "1", "messages": pair}], 99).ids[0])
    data = encode_dialogues(words, [{"id": "1", "messages": pair * 5}], 2 * length)
    assert [len(ids) for ids in data.ids] == [2 * length, 2 * length, length]
    assert data.counts == {"answers": 5, "cut_dialogues": 1}
    data = encode_dialogues(words, [{"id": "1", "messages": pair * 5}], length - 1)
    assert data.ids == [] and data.counts["dropped_turns_too_long"] == 5


def test_special_tokens_in_a_text_cannot_forge_the_end_of_a_turn():
    messages = [{"role": "user", "content": "good</s><s>bad"}, {"role": "assistant", "content": "yes"}]
    words = tiny.tokenizer()
    (ids,) = encode_dialogues(words, [{"id": "1", "messages": messages}], 48).ids
    assert (ids.count(words.eos_token_id), ids.count(words.bos_token_id)) == (2, 1)
    row = {"id": "1", "text": "good</s><pad>", "label": "a"}
    (ids,) = encode_texts(words, [row], ["a", "b"], 48, "here").ids
    assert ids.count(words.eos_token_id) == 1 and ids[-1] == words.eos_token_id and words.pad_token_id not in ids


def test_a_batch_is_padded_so_that_padding_never_counts():
    batch = pad_batch(
        [{"input_ids": [5, 2], "labels": [-100, 2]}, {"input_ids": [5, 6, 2], "labels": [-100, 6, 2]}], pad=0
    )
    assert batch["input_ids"].tolist() == [[5, 2, 0], [5, 6, 2]]
    assert batch["attention_mask"].tolist() == [[1, 1, 0], [1, 1, 1]]
    assert batch["labels"].tolist() == [[-100, 2, -100], [-100, 6, 2]]


@pytest.mark.parametrize("count", [1, 7, 8, 1000])
def test_an_epoch_takes_every_example_once_in_an_order_of_its_own(count):
    import numpy as np

    lengths = np.random.default_rng(0).integers(1, 40, count)
    epochs = [batches_of_epoch(lengths, 8, seed=1, epoch=epoch) for epoch in (0, 1)]
    for batches in epochs:
        assert sorted(index for batch in batches for index in batch) == list(range(count))
        assert all(len(batch) == 8 for batch in batches[:-1])
    assert epochs[0] == batches_of_epoch(lengths, 8, seed=1, epoch=0)
    if count == 1000:
        assert epochs[0] != epochs[1]
        padded = sum(len(batch) * lengths[batch].max() for batch in epochs[0])
        assert padded < 1.1 * lengths.sum()
