"""Perplexity and bits per byte: against a computation token by token, and the references against arithmetic by hand."""

import math

import numpy as np
import pytest

import tiny
from smelt.data.tokens import TokenStream
from smelt.evaluate.language_model import windows
from smelt.evaluate.references import unigram_nats
from smelt.plan.errors import DataError


def value(node, metric, reference=None):
    (found,) = [f for f in node.facts["figures"] if f["metric"] == metric and f.get("reference") == reference]
    return found["value"]


@pytest.fixture
def upstream(results):
    return {"convert": tiny.converted(results.root), "shards": tiny.shards(results.root)}


def rolling(upstream, length, stride):
    """The sum of losses, one forward pass a token: windows of `length` that move by `stride`, the last moved back."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(upstream["convert"].directory / "hf").eval()
    stream = TokenStream(upstream["shards"], "test")
    tokens = [stream.eos, *stream.read(0, len(stream)).tolist()]
    nats = 0.0
    for place in range(1, len(tokens)):
        # Tokens before the window that scores this one are not seen.
        scored_before = 0 if place <= length else length + (place - length - 1) // stride * stride
        end = length if place <= length else min(scored_before + stride, len(tokens) - 1)
        seen = tokens[max(0, end - length) : place]
        with torch.no_grad():
            log = torch.log_softmax(model(torch.tensor([seen])).logits[0, -1].double(), dim=-1)
        nats -= float(log[tokens[place]])
    return nats


@pytest.mark.parametrize(("length", "stride"), [(48, 48), (16, 16), (16, 5)])
def test_perplexity_is_that_of_scoring_token_by_token(results, upstream, length, stride):
    node = results.run(
        "evaluate", "lm", {"sequence_length": length, "stride": stride, "eval_batch_size": 3}, **upstream
    )
    counts = upstream["shards"].facts["splits"]["test"]
    nats = rolling(upstream, length, stride)
    assert value(node, "perplexity") == pytest.approx(math.exp(nats / counts["tokens"]), rel=1e-5)
    assert value(node, "word_perplexity") == pytest.approx(math.exp(nats / counts["words"]), rel=1e-5)
    assert value(node, "bits_per_byte") == pytest.approx(nats / math.log(2) / counts["bytes"], rel=1e-6)


def test_the_window_defaults_to_what_the_network_takes(results, upstream):
    node = results.run("evaluate", "lm", {}, **upstream)
    assert (node.facts["sequence_length"], node.facts["stride"]) == (48, 48)


@pytest.mark.parametrize("total", [1, 7, 8, 9, 40, 41])
@pytest.mark.parametrize("stride", [1, 3, 8])
def test_windows_score_every_token_once(total, stride):
    scored = [
        place
        for begin, count in windows(total, 8, stride)
        for place in range(begin + min(8, total) - count, begin + min(8, total))
    ]
    assert scored == list(range(total))


def test_the_unigram_model_is_that_of_arithmetic_by_hand(results):
    words = tiny.tokenizer()
    shards = tiny.shards(results.root, {"train": ["good good bad"], "test": ["good bad bad"]})
    train, test = TokenStream(shards, "train"), TokenStream(shards, "test")
    assert [len(words.encode(word, add_special_tokens=False)) for word in ("good", "bad")] == [1, 1]
    # Train: good 2, bad 1, end 1. Test: good 1, bad 2, end 1. Vocabulary V, each count one higher.
    size = len(words)
    expected = -(math.log(3) + 2 * math.log(2) + math.log(2)) + 4 * math.log(4 + size)
    assert unigram_nats(train, test, len(test)) == pytest.approx(expected, rel=1e-12)
    node = results.run("evaluate", "lm", {}, convert=tiny.converted(results.root), shards=shards)
    assert value(node, "perplexity", "unigram model") == pytest.approx(math.exp(expected / 4), rel=1e-12)
    assert value(node, "bits_per_byte", "unigram model") == pytest.approx(expected / math.log(2) / 12, rel=1e-12)


def test_a_limit_of_documents_scores_only_them_and_counts_their_bytes(results, upstream):
    texts = [f"{word} film" for word in tiny.POSITIVE]
    few = {**upstream, "shards": tiny.shards(results.root / "few", {"test": texts[:2]})}
    many = {**upstream, "shards": tiny.shards(results.root / "many", {"test": texts})}
    found = []
    for name, given in (("few", few), ("many", many)):
        there = type(results)(results.root / name)
        given["convert"] = tiny.converted(there.root)
        found.append(there.run("evaluate", "lm", {"max_test_rows": 2}, **given))
    assert found[0].facts["scored"] == found[1].facts["scored"]
    assert value(found[0], "bits_per_byte") == value(found[1], "bits_per_byte")


def test_shards_of_another_tokenizer_are_refused(results):
    upstream = {
        "convert": tiny.converted(results.root),
        "shards": tiny.shards(results.root, tokenizer_node="other-1111111111"),
    }
    with pytest.raises(DataError, match="made with tokenizer other-1111111111, not with tiny-0000000000"):
        results.run("evaluate", "lm", {}, **upstream)


def test_a_flipped_byte_in_the_test_shard_is_refused_and_the_shard_named(results, upstream):
    record = upstream["shards"].facts["splits"]["test"]["shards"][0]
    path = upstream["shards"].directory / record["file"]
    data = bytearray(path.read_bytes())
    data[record["offset"] + 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"test-00000\.lmdb"):
        results.run("evaluate", "lm", {}, **upstream)


def test_a_window_beyond_the_network_is_refused(results, upstream):
    with pytest.raises(DataError, match="sequence_length is 49, but the network takes at most 48"):
        results.run("evaluate", "lm", {"sequence_length": 49}, **upstream)


def test_two_evaluations_leave_the_same_bytes(results, upstream):
    first, second = (results.run("evaluate", label, {}, **upstream) for label in ("one", "two"))
    assert first.files == second.files and first.facts == second.facts
    assert not np.isnan([f["value"] for f in first.facts["figures"]]).any()
