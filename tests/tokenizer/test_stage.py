"""The tokenizer as a stage: reproducible, honest about what a corpus can fill, and blind to nothing in the text."""

import itertools
import json
import multiprocessing
import random
import signal
import subprocess
import sys
import threading
import time

import pytest
import sentencepiece
from pydantic import ValidationError

import texts
from smelt.data.encoder import Encoder
from smelt.plan.errors import DataError
from smelt.plan.job import execute
from smelt.plan.manifest import Manifest, canonical
from smelt.plan.settings.tokenizer import Tokenizer
from smelt.tokenizer.sample import LONGEST_LINE, draw, lines
from smelt.tokenizer.training import train


def small(**changed):
    return Tokenizer(**{"vocab_size": 600, **changed})


def content(manifest):
    """Every file of a node, and its manifest, as bytes."""
    names = [*manifest.files, "manifest.json"]
    return {name: (manifest.directory / name).read_bytes() for name in names}


@pytest.fixture(scope="module")
def corpus(session_results):
    return texts.corpus(session_results.root, texts.mixed(), texts.mixed(2, 6), label="tokenizer-stage")


@pytest.fixture(scope="module")
def node(session_results, corpus):
    return session_results.run("tokenizer", "small", small(), corpus=corpus)


def test_the_node_says_what_is_in_it(node):
    assert set(node.files) == {"tokenizer.model", "card.json", "hf/tokenizer.json", "hf/tokenizer_config.json"}
    assert node.facts["kind"] == "bpe"
    assert node.facts["vocab_size"] == 600
    assert node.facts["special_tokens"] == {"pad": 0, "bos": 1, "eos": 2, "unk": 3}
    processor = sentencepiece.SentencePieceProcessor(model_file=str(node.file("tokenizer.model")))
    assert [processor.id_to_piece(i) for i in range(4)] == ["<pad>", "<s>", "</s>", "<unk>"]
    assert (processor.pad_id(), processor.bos_id(), processor.eos_id(), processor.unk_id()) == (0, 1, 2, 3)


def test_transformers_loads_the_node_without_us(node):
    from transformers import AutoTokenizer

    loaded = AutoTokenizer.from_pretrained(node.directory / "hf")
    text = "of the 你好\n\n  of 𠮷</s>"
    assert loaded(text)["input_ids"] == Encoder.load(node).encode([text])[0].tolist()
    assert loaded.decode(loaded(text)["input_ids"]) == text


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_two_folders_and_other_threads_give_the_same_bytes(tmp_path, results, kind):
    made = []
    for folder, threads in (("one", 1), ("another folder", 2)):
        results.root = tmp_path / folder / "results"
        upstream = texts.corpus(results.root, texts.mixed())
        settings = json.loads(canonical(small(kind=kind).model_dump()))
        out = results.path("tokenizer", "en", settings, corpus=upstream)
        execute("tokenizer", canonical(results.spec("tokenizer", settings, {"corpus": upstream})), out, threads=threads)
        made.append(content(Manifest.read(out)))
    assert made[0] == made[1]
    assert not any(str(tmp_path).encode() in data for data in made[0].values())


def test_the_card_counts_what_sentencepiece_counts(node, corpus):
    card = json.loads(node.file("card.json").read_text())
    valid = texts.mixed(2, 6)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(node.file("tokenizer.model")))
    ids = list(itertools.chain.from_iterable(processor.encode(valid)))
    found = card["splits"]["valid"]
    assert found["documents"] == 6
    assert found["tokens"] == len(ids)
    assert found["bytes"] == sum(len(text.encode()) for text in valid)
    assert found["tokens_per_byte"] == len(ids) / found["bytes"]
    assert found["bytes_per_token"] == found["bytes"] / len(ids)
    assert found["unknown_rate"] == 0
    newline = processor.piece_to_id("<0x0A>")
    assert found["byte_fallback"] == sum(processor.is_byte(i) and i != newline for i in ids)
    longest = max((processor.id_to_piece(i) for i in range(600) if not processor.is_byte(i)), key=len)
    assert len(card["longest_pieces"][0]) == len(longest)
    figures = {figure["metric"]: figure["value"] for figure in node.facts["figures"] if figure["split"] == "valid"}
    assert figures == {name: found[name] for name in figures}
    assert {"tokens_per_word", "tokens_per_byte", "bytes_per_token", "unknown_rate", "byte_fallback_rate"} == set(
        figures
    )


def test_a_vocabulary_that_the_corpus_can_not_fill_names_the_one_that_fits(results):
    upstream = texts.corpus(results.root, ["a small corpus of a few words, and a few more words"] * 5)
    with pytest.raises(DataError) as caught:
        results.run("tokenizer", "en", small(vocab_size=5000), corpus=upstream)
    message = str(caught.value)
    assert "vocab_size 5000 is more than this text can fill" in message
    assert "en-" in message
    assert upstream.id in message
    largest = int(message.split("can fill: ")[1].split(" ")[0])
    assert results.run("tokenizer", "en", small(vocab_size=largest), corpus=upstream).facts["vocab_size"] == largest
    with pytest.raises(DataError, match="more than this text can fill"):
        results.run("tokenizer", "en", small(vocab_size=largest + 1), corpus=upstream)


def test_a_vocabulary_too_small_for_the_characters_says_how_many_they_take(results):
    upstream = texts.corpus(results.root, [texts.HAN, texts.HAN])
    characters = 260 + len(set(texts.HAN))
    with pytest.raises(
        DataError,
        match=rf"vocab_size 300 is too small: .* take {characters}\. Set vocab_size well above {characters}, or lower",
    ):
        results.run("tokenizer", "zh", small(vocab_size=300, character_coverage=1.0), corpus=upstream)


@pytest.mark.parametrize("train", [[], [""], ["\n\n", ""]])
def test_a_corpus_without_text_is_one_clear_error(results, train):
    with pytest.raises(DataError, match="the train split holds no text to train on"):
        results.run("tokenizer", "en", small(), corpus=texts.corpus(results.root, train, ["a"], ["b"]))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"vocab_size": 200}, "leaves no room beside the 260 fixed pieces"),
        ({"vocab_size": 4, "byte_fallback": False}, "beside the 4 fixed pieces"),
        ({"vocab_size": 0}, "greater than 0"),
        ({"character_coverage": 0.5}, r"greater than or equal to 0\.98"),
        ({"kind": "bp"}, "'bpe', 'unigram' or 'byte_level_bpe'"),
        ({"vocabsize": 5}, "not permitted"),
    ],
)
def test_settings_that_can_not_be_are_refused_before_anything_runs(changed, words):
    with pytest.raises(ValidationError, match=words):
        Tokenizer(**changed)


def pieces(manifest):
    processor = sentencepiece.SentencePieceProcessor(model_file=str(manifest.file("tokenizer.model")))
    return {processor.id_to_piece(i) for i in range(processor.get_piece_size())}


@pytest.mark.parametrize(
    "hidden",
    ["▅ zyxwvuts ", "▁zyxwvuts ▁", "\x00 zyxwvuts ", "zyxwvuts " * 2 + "of the " * (LONGEST_LINE // 4), "zyxwvuts\n"],
    ids=["reserved", "space mark", "nul", "long line", "line break"],
)
def test_no_line_is_dropped_unsaid(results, hidden):
    """SentencePiece itself drops lines that are long or hold a reserved character; a word that only stands there would get no piece."""
    upstream = texts.corpus(results.root, [*texts.mixed(), hidden * 400], texts.mixed(2, 2))
    assert {"zyxwvuts", "▁zyxwvuts"} & pieces(results.run("tokenizer", "en", small(), corpus=upstream))


def test_no_piece_holds_a_line_break_with_anything_else(results):
    upstream = texts.corpus(results.root, ["x\ny\n\n" * 500, *texts.mixed()])
    assert not [
        piece
        for piece in pieces(results.run("tokenizer", "en", small(), corpus=upstream))
        if "\n" in piece and len(piece) > 1
    ]


def test_runs_of_spaces_get_pieces(results):
    code = "def f(x):\n    if x:\n        return x\n" * 200
    assert "▁▁▁▁" in pieces(
        results.run("tokenizer", "code", small(), corpus=texts.corpus(results.root, [code, *texts.mixed()]))
    )


def test_a_sample_stays_within_its_bound_and_depends_on_the_seed():
    rng = random.Random(1)
    documents = [texts.prose(rng, rng.randrange(5, 100)) for _ in range(300)]
    size = sum(len(text.encode()) for text in documents)
    kept, count = draw(documents, size // 3, seed=1)
    taken = sum(len(text.encode()) for text in kept)
    assert count == 300
    assert 0.9 * size / 3 < taken <= size / 3
    assert kept == sorted(kept, key=documents.index)
    assert draw(documents, size // 3, seed=1)[0] == kept
    assert draw(documents, size // 3, seed=2)[0] != kept
    assert draw(documents, size, seed=1)[0] == documents


def test_a_sample_is_drawn_from_everywhere():
    documents = [f"{i:04}" for i in range(4000)]
    kept = [int(text) for text in draw(documents, 4 * 1000, seed=3)[0]]
    quarters = [sum(q * 1000 <= i < (q + 1) * 1000 for i in kept) for q in range(4)]
    assert len(kept) == 1000
    # Binomial: 250 +- 14 each.
    assert all(abs(count - 250) < 70 for count in quarters)


def test_a_text_beyond_the_bound_is_cut_to_it():
    kept, _ = draw(["é" * 1000], 101, seed=1)
    assert kept == ["é" * 50]


def test_lines_lose_no_character_but_the_separators():
    rng = random.Random(2)
    documents = [*texts.hard(rng, 300), "x" * 3 * LONGEST_LINE, texts.prose(rng, 2000).replace("\n", "")]
    for text in documents:
        found = list(lines([text]))
        assert "".join(found) == "".join(c for c in text if c not in "\n▁▅")
        assert all(0 < len(line) <= LONGEST_LINE for line in found)


def test_the_card_says_how_much_was_sampled(results):
    upstream = texts.corpus(results.root, texts.mixed(1, 60))
    node = results.run("tokenizer", "en", small(vocab_size=450, max_train_bytes=20_000), corpus=upstream)
    about = json.loads(node.file("card.json").read_text())["trained_on"]
    assert about["of_documents"] == 60
    assert 0 < about["documents"] < 60
    assert 10_000 < about["bytes"] <= 20_000


@pytest.mark.parametrize("moment", [0.0, 0.5])
def test_a_signal_ends_the_training_at_once_and_leaves_no_manifest(results, moment):
    rng = random.Random(5)
    upstream = texts.corpus(results.root, [texts.prose(rng, 100_000) for _ in range(5)], ["a"], ["b"])
    settings = json.loads(canonical(small(kind="unigram").model_dump()))
    out = results.path("tokenizer", "en", settings, corpus=upstream)
    spec = canonical(results.spec("tokenizer", settings, {"corpus": upstream}))
    stage = subprocess.Popen(
        [sys.executable, "-m", "smelt", "tokenizer", "--spec", spec, "--out", out, "--log", out.with_name("log.txt")],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert "training unigram" in stage.stderr.readline()
    time.sleep(moment)
    sent = time.monotonic()
    stage.send_signal(signal.SIGTERM)
    assert "stopped by SIGTERM" in stage.communicate()[1]
    assert time.monotonic() - sent < 5
    assert stage.returncode == 75
    assert not out.exists()


def test_a_trainer_that_the_kernel_kills_is_told_as_such():
    rng, found = random.Random(5), []
    sample = [texts.prose(rng, 5000) for _ in range(50)]

    def call():
        with pytest.raises(DataError) as caught:
            train(lines(sample), small(kind="unigram"))
        found.append(str(caught.value))

    calling = threading.Thread(target=call)
    calling.start()
    while not (children := multiprocessing.active_children()):
        time.sleep(0.01)
    children[0].kill()
    calling.join()
    assert "ended from outside (exit code -9), most likely for want of memory" in found[0]


def test_the_stage_is_imported_without_torch_or_transformers():
    program = "import sys, smelt.tokenizer.stage, smelt.shards.stage; print([m for m in ('torch', 'transformers') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"
