"""Answers: their perplexity token by token, repetition by hand, latency beside the facts and never in them."""

import json
import math

import pytest

import tiny
from smelt.data.documents import read_documents
from smelt.evaluate.dialogue import answer_figures, latency_figures
from smelt.plan.errors import DataError


def value(node, metric, reference=None):
    (found,) = [f["value"] for f in node.facts["figures"] if f["metric"] == metric and f.get("reference") == reference]
    return found


@pytest.fixture(scope="module", params=["lora", "full"])
def made(session_results, request):
    results = type(session_results)(session_results.root / "talk" / request.param)
    convert, task = tiny.converted(results.root), tiny.dialogue(results.root)
    settings = {"method": request.param, "num_train_epochs": 2, "train_batch_size": 4, "learning_rate": 1e-2}
    tuned = results.run("finetune", "talk", settings, convert=convert, task=task)
    return {"results": results, "convert": convert, "task": task, "finetune": tuned}


@pytest.fixture
def results(made):
    return made["results"]


@pytest.fixture
def upstream(made):
    return {role: made[role] for role in ("convert", "task", "finetune")}


def by_hand(model, words, task):
    """exp of the mean loss of the answers' tokens and ends, from the chat template, one dialogue at a time."""
    import torch

    nats = count = 0
    for row in read_documents(task.file("test.jsonl.zst")):
        ids = words.apply_chat_template(row["messages"], tokenize=True, return_dict=False)
        answer = False
        with torch.no_grad():
            log = torch.log_softmax(model(torch.tensor([ids])).logits[0].double(), dim=-1)
        for place, token in enumerate(ids):
            if answer:
                nats -= float(log[place - 1, token])
                count += 1
            if token == words.bos_token_id:
                answer = True
            elif token == words.eos_token_id:
                answer = False
    return math.exp(nats / count)


def test_perplexity_is_that_of_the_answers_alone(results, upstream):
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    node = results.run("evaluate", "talk", {"generated_answers": 2, "samples": 1}, **upstream)
    base = AutoModelForCausalLM.from_pretrained(upstream["convert"].directory / "hf").eval()
    directory = upstream["finetune"].directory / "model"
    words = AutoTokenizer.from_pretrained(directory)
    before = by_hand(base, words, upstream["task"])
    if upstream["finetune"].facts["method"] == "lora":
        model = PeftModel.from_pretrained(base, directory).eval()
    else:
        model = AutoModelForCausalLM.from_pretrained(directory).eval()
    assert value(node, "perplexity") == pytest.approx(by_hand(model, words, upstream["task"]), rel=1e-5)
    assert value(node, "perplexity", "before fine-tuning") == pytest.approx(before, rel=1e-5)
    assert value(node, "perplexity") < 0.9 * before


def test_answers_are_the_same_again_and_are_shown_with_their_prompts(results, upstream):
    settings = {"generated_answers": 5, "samples": 3, "max_new_tokens": 8}
    first, second = (results.run("evaluate", label, settings, **upstream) for label in ("one", "two"))
    assert first.files == second.files
    samples = json.loads(first.file("samples.json").read_text())
    rows = list(read_documents(upstream["task"].file("test.jsonl.zst")))
    assert samples == first.facts["samples"] and len(samples) == 3
    for sample, row in zip(samples, rows, strict=False):
        assert sample["messages"] == row["messages"][:1]
        assert sample["reference"] == row["messages"][1]["content"]
        assert "</s>" not in sample["answer"]
    measured = {f["metric"]: f["value"] for f in first.provenance["measurements"]["figures"]}
    assert 0 < measured["answer_latency_p50"] <= measured["answer_latency_p95"]
    assert "latency" not in json.dumps(first.facts)


def test_sampling_depends_on_the_seed_alone(results, upstream):
    def answers(**settings):
        node = results.run("evaluate", "talk", {"generated_answers": 8, "samples": 8, **settings}, **upstream)
        return [sample["answer"] for sample in node.facts["samples"]]

    hot = {"temperature": 2.0, "max_new_tokens": 12}
    assert answers(**hot) == answers(**hot) != answers(**hot, seed=1)
    # No answer hangs on the number of others.
    assert answers(**hot)[:3] == answers(**{**hot, "generated_answers": 3})


def test_repetition_and_distinct_are_those_of_counting_by_hand():
    # abcabc: trigrams abc bca cab abc, one of four repeated; ab: none. Letters: 8, of which 3 differ; pairs: 6, ab bc ca differ.
    found = {f["metric"]: f["value"] for f in answer_figures([[1, 2, 3, 1, 2, 3], [1, 2]], [True, False])}
    assert found == {
        "repetition": 1 / 4,
        "distinct_1": 3 / 8,
        "distinct_2": 3 / 6,
        "answer_length": 4.0,
        "ended_answers": 0.5,
    }


def test_answers_that_are_empty_are_counted_and_break_nothing():
    found = {f["metric"]: f["value"] for f in answer_figures([[]], [True])}
    assert found["answer_length"] == 0 and found["repetition"] == 0


def test_latency_is_the_middle_and_the_slow_end():
    found = {f["metric"]: f["value"] for f in latency_figures([i / 1000 for i in range(1, 102)])}
    assert found == {"answer_latency_p50": 51.0, "answer_latency_p95": 96.0}


def test_an_answer_that_leaves_no_room_for_a_prompt_is_refused(results, upstream):
    with pytest.raises(DataError, match="max_new_tokens 48 leaves no room"):
        results.run("evaluate", "talk", {"max_new_tokens": 48}, **upstream)
