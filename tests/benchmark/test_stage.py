"""The table of speeds: its rows, that its ratios follow from its times, and that it fails in words."""

import pytest
import torch

import tiny
from smelt.benchmark.stage import bf16_in_hardware, cells, sequences
from smelt.plan.errors import DataError, SmeltError
from smelt.plan.settings.benchmark import Benchmark

SMALL = {"repeats": 2, "steps": 1, "batch_size": 2, "sequence_length": 16}


@pytest.fixture
def upstream(results):
    return {"convert": tiny.converted(results.root), "shards": tiny.shards(results.root)}


def test_every_precision_is_timed_with_every_method(results, upstream):
    node = results.run("benchmark", "speed", SMALL, **upstream)
    measured = node.provenance["measurements"]
    rows = measured["rows"]
    kinds = [(row["precision"], row["method"]) for row in rows]
    assert kinds == [("fp32", "full"), ("fp32", "lora"), ("bf16", "full"), ("bf16", "lora")]
    for row in rows:
        assert row["tokens_per_second"] == pytest.approx(row["batch"] * 16 / row["seconds_per_batch"], rel=1e-2)
        assert row["ratio"] == pytest.approx(row["tokens_per_second"] / rows[0]["tokens_per_second"], abs=1e-3)
        assert row["repeats"] == 2 and row["sequence_length"] == 16
        assert row["peak_memory_mb"] is None or 0 < row["peak_memory_mb"] < 500
    assert rows[1]["trainable_parameters"] < rows[0]["trainable_parameters"] == upstream["convert"].facts["parameters"]
    assert measured["device"] == "CPU"
    # What differs from run to run has no place in the manifest.
    assert set(node.facts) == {"cells", "sequence_length"} and node.files == {}


def test_memory_grows_with_what_is_trained(results, upstream):
    settings = {**SMALL, "precisions": ["fp32"], "methods": ["full"], "repeats": 1}
    peaks = []
    for batch in (1, 64):
        node = results.run("benchmark", "memory", {**settings, "batch_size": batch}, **upstream)
        peaks.append(node.provenance["measurements"]["rows"][0]["peak_memory_mb"])
    if None in peaks:
        pytest.skip("this system does not tell a process its peak memory")
    # The logits alone: 63 sequences of 16 tokens by 200 pieces, in fp32, with their gradient.
    assert peaks[1] - peaks[0] > 63 * 16 * 200 * 4 * 2 / 1e6


def test_half_precision_in_software_gets_a_small_batch_and_says_so():
    settings = Benchmark(batch_size=8)
    slow, fast, gpu = (cells(settings, gpus, native) for gpus, native in ((0, False), (0, True), (1, False)))
    assert [cell.batch for cell in slow] == [8, 8, 1, 1]
    assert [bool(cell.note) for cell in slow] == [False, False, True, True]
    assert [cell.batch for cell in fast] == [cell.batch for cell in gpu] == [8] * 4


def test_the_same_seed_takes_the_same_text(upstream):
    given = (upstream["convert"], upstream["shards"])
    first, again, other = (sequences(*given, Benchmark(seed=seed, sequence_length=16)) for seed in (1, 1, 2))
    assert first.shape == (8, 16) and (first == again).all() and (first != other).any()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"precisions": ["fp16"]}, "fp16 needs a GPU"),
        ({"sequence_length": 49}, "sequence_length is 49, but the network takes at most 48"),
    ],
)
def test_what_cannot_be_timed_is_refused(results, upstream, settings, message):
    with pytest.raises(DataError, match=message):
        results.run("benchmark", "speed", settings, **upstream)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_the_device_that_is_there_counts_and_not_the_one_that_was_granted(results, upstream):
    with pytest.raises(DataError, match="fp16 needs a GPU"):
        results.run("benchmark", "speed", {"precisions": ["fp16"]}, {"gpus": 1}, **upstream)
    settings = {**SMALL, "precisions": ["bf16"], "methods": ["full"], "repeats": 1}
    measured = results.run("benchmark", "speed", settings, {"gpus": 1}, **upstream).provenance["measurements"]
    assert measured["device"] == "CPU"
    assert bool(measured["rows"][0]["note"]) is not bf16_in_hardware()


def test_a_cell_that_dies_is_named(results, upstream):
    convert = upstream["convert"]
    weights = convert.directory / "hf" / "model.safetensors"
    weights.write_bytes(bytes(weights.stat().st_size))
    upstream["convert"] = tiny.node(results.root, "convert", "tiny", convert.facts, convert.upstream)
    with pytest.raises(SmeltError, match="benchmark: fp32 full: SafetensorError"):
        results.run("benchmark", "speed", SMALL, **upstream)
