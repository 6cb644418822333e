"""smelt.plan.config: layers, inheritance, matrices, references; and every problem told at once, where it is written."""

from pathlib import Path

import pytest

from small_plan import CHECKSUM, load, small, write
from smelt.plan.config import Configuration, merge
from smelt.plan.errors import ConfigError
from smelt.plan.plan import Plan


def problems(folder: Path, *layers) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(folder, *layers)
    return caught.value.problems


def only(folder: Path, *layers) -> str:
    found = problems(folder, *layers)
    assert len(found) == 1, found
    return found[0]


def test_a_later_layer_overrides_single_keys_and_replaces_lists(tmp_path):
    over = {"pretraining": {"short": {"max_steps": 99}}, "experiments": {"first": {"finetuning": []}}}
    blocks = load(tmp_path, small(), over).configuration.blocks
    assert blocks["pretraining"]["short"].value.max_steps == 99
    assert blocks["pretraining"]["short"].value.sequence_length == 64
    assert blocks["experiments"]["first"].value.finetuning == []


def test_merging_leaves_both_sides_as_they_were():
    under, over = {"a": {"b": 1}}, {"a": {"c": 2}}
    assert merge(under, over) == {"a": {"b": 1, "c": 2}}
    assert (under, over) == ({"a": {"b": 1}}, {"a": {"c": 2}})


def test_a_block_takes_what_it_lacks_from_the_one_it_is_like(tmp_path):
    config = small()
    config["pretraining"] |= {
        "long": {"like": "short", "max_steps": 1000},
        "longest": {"like": "long", "learning_rate": 1e-3},
    }
    config["finetuning"] |= {"lora": {"like": "sentiment", "method": "lora", "lora": {"r": 2}}, "lora4": {"like": "lora", "lora": {"lora_alpha": 4}}}  # fmt: skip
    blocks = load(tmp_path, config).configuration.blocks
    longest = blocks["pretraining"]["longest"].value
    assert (longest.max_steps, longest.sequence_length, longest.learning_rate) == (1000, 64, 1e-3)
    lora = blocks["finetuning"]["lora4"].value
    assert (lora.task, lora.method, lora.lora.r, lora.lora.lora_alpha) == ("reviews", "lora", 2, 4)


def test_a_matrix_makes_a_block_for_every_combination_with_dotted_keys(tmp_path):
    config = small()
    config["finetuning"]["sentiment"] = {
        "task": "reviews",
        "each": {"lora.r": [2, 4], "learning_rate": [3e-4], "method": ["full", "lora"]},
    }
    configuration = load(tmp_path, config).configuration
    assert configuration.names("finetuning", "sentiment") == [
        "sentiment-r2-learning_rate0.0003-full",
        "sentiment-r2-learning_rate0.0003-lora",
        "sentiment-r4-learning_rate0.0003-full",
        "sentiment-r4-learning_rate0.0003-lora",
    ]
    value = configuration.blocks["finetuning"]["sentiment-r4-learning_rate0.0003-lora"].value
    assert (value.lora.r, value.lora.lora_alpha, value.method) == (4, 16, "lora")


def test_members_of_a_matrix_share_nothing_that_one_could_alter(tmp_path):
    config = small()
    config["finetuning"]["sentiment"] = {"task": "reviews", "lora": {"lora_alpha": 3}, "each": {"lora.r": [1, 2]}}
    blocks = load(tmp_path, config).configuration.blocks["finetuning"]
    assert [(b.value.lora.r, b.value.lora.lora_alpha) for b in blocks.values()] == [(1, 3), (2, 3)]


def test_a_matrix_of_experiments_names_its_members(tmp_path):
    config = small()
    config["models"]["midi"] = {"like": "mini", "hidden_size": 128}
    config["experiments"]["first"]["each"] = {"model": ["mini", "midi"]}
    del config["experiments"]["first"]["model"]
    assert list(load(tmp_path, config).experiments) == ["first-mini", "first-midi"]


def test_resources_of_a_block_are_no_setting(tmp_path):
    config = small()
    config["pretraining"]["short"]["resources"] = {"gpus": 2, "memory": 9000}
    block = load(tmp_path, config).configuration.blocks["pretraining"]["short"]
    assert block.need.gpus == 2
    assert "resources" not in block.value.model_dump()


def test_every_problem_of_every_file_is_told_at_once(tmp_path):
    config = small()
    config["tokenisers"] = {}
    config["tokenizers"]["bpe"] = {"vocab_size": "many"}
    config["pretraining"]["short"] |= {"lerning_rate": 1, "sequence_length": 0}
    config["models"]["mini"]["num_attention_heads"] = 7
    config["finetuning"]["sentiment"]["task"] = "revews"
    config["experiments"]["first"] |= {"corpus": "fr", "benchmark": None, "finetuning": ["sentimant"], "evaluate": 3}
    config["corpora"]["en"]["sources"] = [{"kind": "file", "path": "absent.txt"}]
    config["experiments"]["second"] = {"like": "first", "corpus": "en", "evaluate": {}, "finetuning": []}
    found = "\n".join(problems(tmp_path, config))
    for told in (
        "tokenisers: no such section (did you mean 'tokenizers'?)",
        "tokenizers.bpe.vocab_size: 'many'",
        "pretraining.short.lerning_rate: no such key (did you mean 'learning_rate'?)",
        "pretraining.short.sequence_length: 0",
        "models.mini: ",
        "finetuning.sentiment.task: no block of tasks is named 'revews' (did you mean 'reviews'?)",
        "experiments.first.corpus: no block of corpora is named 'fr'",
        "experiments.first.finetuning: no block of finetuning is named 'sentimant'",
        "experiments.first.evaluate: 3",
        "corpora.en.sources[0].path: source path 'absent.txt'",  # what does not fit the machine, beside the rest
    ):
        assert told in found


def test_a_problem_is_told_once_at_the_block_that_has_it_not_at_each_that_is_like_it(tmp_path):
    config = small()
    config["pretraining"]["short"]["learning_rate"] = -1
    config["pretraining"] |= {"b": {"like": "short"}, "c": {"like": "b", "seed": 1}}
    assert "pretraining.short.learning_rate: -1" in only(tmp_path, config)


def test_a_problem_of_a_matrix_is_told_at_its_list(tmp_path):
    config = small()
    config["pretraining"]["short"]["each"] = {"learning_rate": [1e-3, -1]}
    config["experiments"]["first"]["pretraining"] = "short-learning_rate0.001"
    assert "pretraining.short.each.learning_rate: -1" in only(tmp_path, config)


def test_the_file_and_line_of_the_layer_that_has_the_key_are_told(tmp_path):
    over = "# a comment\npretraining:\n  short:\n    max_steps: no\n"
    assert f"{tmp_path}/layer1.yaml:4: pretraining.short.max_steps: False" in only(tmp_path, small(), over)


@pytest.mark.parametrize(
    ("chain", "told"),
    [
        ({"a": "a"}, "a → a"),
        ({"a": "b", "b": "a"}, "a → b → a"),
        ({"a": "b", "b": "c", "c": "a"}, "a → b → c → a"),
    ],
)
def test_likes_in_a_circle_are_told_with_the_circle(tmp_path, chain, told):
    config = small()
    config["pretraining"] |= {name: {"like": other} for name, other in chain.items()}
    found = problems(tmp_path, config)
    assert any(f"goes in a circle: {told}; take one `like` out" in each for each in found)


def test_a_block_of_an_unknown_name_to_be_like_is_told_with_the_nearest(tmp_path):
    config = small()
    config["pretraining"]["long"] = {"like": "shrot"}
    told = "pretraining.long.like: no block of pretraining is named 'shrot' (did you mean 'short'?)"
    assert told in only(tmp_path, config)


@pytest.mark.parametrize(
    ("each", "told"),
    [
        ({"seed": []}, "each.seed: is an empty matrix"),
        ({}, "{} is not a mapping from keys to lists"),
        (None, "None is not a mapping"),
        ([1], "[1] is not a mapping"),
        ({"seed": 1}, "each.seed: 1 is not a list"),
        ({"seed": [1, 1]}, "makes the name 'short-seed1' twice"),
        ({"seed": ["x" * 80]}, "too long"),
        ({"seed.deep": [1]}, "each.seed.deep: leads into a key that is no mapping"),
    ],
)
def test_a_matrix_that_is_none_is_told(tmp_path, each, told):
    config = small()
    config["pretraining"]["short"] |= {"seed": 3, "each": each}
    assert any(told in found for found in problems(tmp_path, config))


def test_a_matrix_where_one_block_is_wanted_lists_its_members(tmp_path):
    config = small()
    config["pretraining"]["short"]["each"] = {"seed": [1, 2]}
    config["tasks"]["reviews"]["each"] = {"seed": [1, 2]}
    found = problems(tmp_path, config)
    assert len(found) == 2
    assert "experiments.first.pretraining: 'short' is a matrix (short-seed1, short-seed2); name one of them" in found[0]
    assert "finetuning.sentiment.task: 'reviews' is a matrix (reviews-seed1, reviews-seed2)" in found[1]


def test_a_block_with_problems_of_its_own_does_not_count_as_missing(tmp_path):
    config = small()
    config["models"]["mini"]["hidden_size"] = -1
    assert "models.mini.hidden_size" in only(tmp_path, config)


def test_a_misspelt_stage_under_resources_is_told(tmp_path):
    config = small()
    config["experiments"]["first"]["resources"] = {"pretrian": {"gpus": 1}}
    assert "no stage is named 'pretrian' (did you mean 'pretrain'?)" in only(tmp_path, config)


def test_a_sequence_longer_than_the_network_is_told_before_anything_runs(tmp_path):
    config = small()
    config["pretraining"]["short"]["sequence_length"] = 129
    told = only(tmp_path, config)
    assert "pretraining.short.sequence_length: 129 is more than max_position_embeddings 128 of model 'mini'" in told


def test_no_experiment_at_all_is_an_error_and_not_a_quiet_success(tmp_path):
    config = small() | {"experiments": {}}
    assert "there is no experiment, so nothing could run; add a block under `experiments:`" in only(tmp_path, config)
    # The configuration by itself is sound: a layer to build on.
    assert Configuration.load([write(tmp_path, config)]).blocks["corpora"]


def test_a_missing_key_is_told_with_what_it_is_for(tmp_path):
    config = small()
    del config["experiments"]["first"]["model"]
    assert "experiments.first.model: is missing; add `model:` (The network)" in only(tmp_path, config)


def test_a_wrong_kind_of_source_is_told_at_its_place_in_the_list(tmp_path):
    config = small()
    config["corpora"]["en"]["sources"].append({"kind": "ftp", "url": "x"})
    told = only(tmp_path, config)
    assert "corpora.en.sources[1].kind: 'ftp' is none of 'package', 'url', 'file'" in told


def test_a_key_of_another_kind_of_source_is_unknown_there(tmp_path):
    config = small()
    config["corpora"]["en"]["sources"][0]["pth"] = "x"
    assert "corpora.en.sources[0].pth: no such key (did you mean 'path'?)" in only(tmp_path, config)


def test_numbers_are_not_made_of_text_nor_truth_of_numbers(tmp_path):
    config = small()
    config["tokenizers"]["bpe"] = {"vocab_size": "2000", "split_digits": 1, "seed": 1.0}
    found = problems(tmp_path, config)
    assert len(found) == 3


def test_a_whole_number_is_a_fine_learning_rate(tmp_path):
    config = small()
    config["pretraining"]["short"]["weight_decay"] = 0
    assert load(tmp_path, config).configuration.blocks["pretraining"]["short"].value.weight_decay == 0


def test_a_thousand_blocks_load_in_a_moment(tmp_path):
    import time

    config = small()
    config["pretraining"] |= {f"p{i}": {"like": "short", "seed": i} for i in range(1000)}
    path = write(tmp_path, config)
    started = time.process_time()
    Plan.load([path])
    assert time.process_time() - started < 2


def test_checksums_and_addresses_are_checked_by_form(tmp_path):
    config = small()
    config["corpora"]["en"]["sources"] = [
        {"kind": "url", "url": "ftp://x/y", "sha256": CHECKSUM},
        {"kind": "url", "url": "https://x/y", "sha256": CHECKSUM[:-1]},
        {"kind": "url", "url": "https://x/y"},
        {"kind": "package", "release": "../x.tar.gz", "sha256": CHECKSUM},
    ]
    found = "\n".join(problems(tmp_path, config))
    for position, told in enumerate(["'ftp://x/y' is no http or https address", "sha256", "has no checksum", "no name of a release file"]):  # fmt: skip
        assert f"corpora.en.sources[{position}]" in found
        assert told in found


@pytest.mark.parametrize(
    ("section", "name", "asked", "told"),
    [
        (
            "corpora",
            "en",
            {"gpus": 1},
            "corpora.en.resources.gpus: corpus makes no use of it; it can be given threads, memory, minutes",
        ),
        (
            "finetuning",
            "sentiment",
            {"zero_stage": 2},
            "finetuning.sentiment.resources.zero_stage: finetune makes no use of it",
        ),
        (
            "finetuning",
            "sentiment",
            {"gpus": 4},
            "finetuning.sentiment.resources.gpus: 4: finetune runs on one GPU; write 1, or 0",
        ),
        (
            "experiments",
            "first",
            {"shards": {"micro_batch": 2}},
            "experiments.first.resources.shards.micro_batch: shards makes no use",
        ),
    ],
)
def test_a_resource_that_a_stage_makes_no_use_of_is_not_passed_over(tmp_path, section, name, asked, told):
    config = small()
    config[section][name]["resources"] = asked
    assert told in only(tmp_path, config)


@pytest.mark.parametrize(
    ("section", "name", "keys"),
    [
        ("finetuning", "sentiment", {"max_length": 4096}),
        ("experiments", "first", {"evaluate": {"sequence_length": 4096}}),
    ],
)
def test_sequences_longer_than_the_network_are_told_wherever_they_stand(tmp_path, section, name, keys):
    config = small()
    config[section][name] |= keys
    assert "4096 is more than max_position_embeddings 128 of model 'mini'" in only(tmp_path, config)
