"""Byte-level BPE: the same model from any number of threads, and the same ids from the trained model, its export and the fast encoder."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

import texts
from smelt.data.byte_level import DIGITS, WORDS, ByteLevel
from smelt.data.encoder import BOS, EOS, PAD, UNK, Encoder
from smelt.plan.errors import DataError
from smelt.plan.settings.tokenizer import Tokenizer
from smelt.tokenizer.byte_level import train

SPECIAL = [PAD, BOS, EOS, UNK]


def settings(**changed):
    return Tokenizer(**{"kind": "byte_level_bpe", "vocab_size": 1500, **changed})


@pytest.fixture(scope="module")
def upstream(session_results):
    documents = [*texts.library(6), *texts.mixed(), *["<s>a</s> <pad> ababababa aaaaaaaaa\n" * 30] * 3]
    return texts.corpus(session_results.root, documents, texts.mixed(2, 6), label="byte-level")


@pytest.fixture(scope="module")
def node(session_results, upstream):
    return session_results.run("tokenizer", "bytes", settings(), corpus=upstream)


@pytest.fixture(scope="module")
def encoder(node):
    return Encoder.load(node)


@pytest.fixture(scope="module")
def exported(node):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(node.directory / "hf")


def test_the_node_says_what_is_in_it(node):
    assert set(node.files) == {"card.json", "hf/tokenizer.json", "hf/tokenizer_config.json"}
    assert node.facts["vocab_size"] == 1500
    assert node.facts["special_tokens"] == {"pad": 0, "bos": 1, "eos": 2, "unk": 3}
    assert json.loads(node.file("card.json").read_text())["encoded_by"] == "tiktoken"


def test_model_export_and_fast_encoder_give_the_same_ids_on_ten_thousand_lines(node, encoder, exported, many):
    import tokenizers

    trained = tokenizers.Tokenizer.from_file(str(node.file("hf/tokenizer.json")))
    trained.encode_special_tokens = True
    ids = [each.tolist() for each in encoder.encode(many, 2)]
    for text, fast, hf, own in zip(
        many, ids, exported(many, add_special_tokens=False)["input_ids"], trained.encode_batch(many), strict=True
    ):
        assert fast == hf == own.ids, repr(text)


def test_any_text_comes_back_exactly(encoder, exported, many):
    ids = encoder.encode(many)
    assert [encoder.decode(each) for each in ids] == many
    assert exported.batch_decode([each.tolist() for each in ids]) == many


@pytest.mark.slow
@pytest.mark.parametrize("expression", [WORDS, DIGITS])
def test_both_engines_cut_words_alike_at_every_character_of_unicode(expression):
    """The words of one engine are the pieces of the other, which then gives one id a word, or has cut at another place. Planes 4 to 13 are empty."""
    import tiktoken
    from tokenizers import Regex, pre_tokenizers

    bytes_alone = [bytes([byte]) for byte in range(256)]
    engine = pre_tokenizers.Split(Regex(expression), "isolated")
    for first in (*range(0, 0x40000, 0x8000), 0xE0000):
        codes = [code for code in range(first, first + 0x8000) if not 0xD800 <= code < 0xE000]
        text = "".join(f"a{chr(code)}1{chr(code)}.{chr(code)} {chr(code)}\n" for code in codes)
        words = [word for word, _ in engine.pre_tokenize_str(text)]
        pieces = list(dict.fromkeys([*bytes_alone, *(word.encode() for word in words)]))
        ranks = {piece: number for number, piece in enumerate(pieces)}
        fast = tiktoken.Encoding("words", pat_str=expression, mergeable_ranks=ranks, special_tokens={})
        assert [pieces[number] for number in fast.encode_ordinary(text)] == [word.encode() for word in words]


def test_the_text_of_special_tokens_is_text(encoder, exported):
    for text in ("<pad>", "<s>", "</s>", "<unk>", "x</s>y", "[MASK]", "<|endoftext|>"):
        assert not set(encoder.encode([text])[0].tolist()) & set(SPECIAL)
    # What sets encoders apart that look equal: this one was asked to find special tokens.
    assert exported("x</s>y", split_special_tokens=False)["input_ids"] != encoder.encode(["x</s>y"])[0].tolist()
    assert exported.decode([BOS, *encoder.encode(["a b"])[0], EOS, PAD], skip_special_tokens=True) == "a b"
    assert encoder.decode(np.array([BOS, *encoder.encode(["a b"])[0], EOS, PAD])) == "a b"


@pytest.mark.parametrize(
    "text", [" " * 1_200_000 + "x", "\n" * 100_000 + "y", "a" * 100_000, "中" * 50_000], ids=lambda text: text[-1]
)
def test_endless_runs_are_encoded_like_everything_else(encoder, exported, text):
    ids = encoder.encode([text])[0]
    assert encoder.decode(ids) == text
    assert exported.backend_tokenizer.encode(text).ids == ids.tolist()


def test_the_model_is_the_same_with_any_number_of_threads(tmp_path):
    program = (
        "import sys, texts; from smelt.plan.settings.tokenizer import Tokenizer; from smelt.tokenizer.byte_level import train\n"
        "if __name__ == '__main__':\n"
        "    sys.stdout.buffer.write(train(texts.mixed() + texts.library(4), Tokenizer(kind='byte_level_bpe', vocab_size=900), int(sys.argv[1])))"
    )
    script = tmp_path / "train.py"
    script.write_text(program)
    path = os.pathsep.join([str(Path(texts.__file__).parent), *sys.path])
    made = [
        subprocess.run(
            [sys.executable, script, threads], capture_output=True, check=True, env={**os.environ, "PYTHONPATH": path}
        ).stdout
        for threads in ("1", "2", "5")
    ]
    assert made[0] == made[1] == made[2]
    assert made[0] == train(texts.mixed() + texts.library(4), settings(vocab_size=900), 2)


def test_threads_and_pickle_change_no_ids(encoder, many):
    some = many[::20]
    expected = [ids.tolist() for ids in encoder.encode(some)]
    again = pickle.loads(pickle.dumps(encoder))
    assert [ids.tolist() for ids in again.encode(some, 4)] == expected
    assert all(ids.dtype == np.dtype("<u2") for ids in again.encode(["", "word"]))


def test_pieces_are_as_long_as_they_may_be_and_no_longer():
    model = ByteLevel(train(texts.mixed(), settings(vocab_size=600, max_piece_length=6), 1))
    assert max(len(model.piece(number)) for number in range(4, model.vocab_size)) == 6


def test_digits_can_be_pieces_of_their_own():
    model = ByteLevel(train(["1234 12 x1 " * 90, *texts.mixed()], settings(vocab_size=400, split_digits=True), 1))
    digits = [model.piece(number) for number in range(4, model.vocab_size)]
    assert not [piece for piece in digits if any(c.isdigit() for c in piece) and len(piece) > 1]
    assert [model.piece(number) for number in model.encode(["a 12"])[0]][-3:] == ["▁", "1", "2"]


def test_nfkc_is_done_by_encoder_and_export(session_results, upstream):
    from transformers import AutoTokenizer

    node = session_results.run("tokenizer", "nfkc", settings(vocab_size=600, normalization="nfkc"), corpus=upstream)
    text = "Ｆｕｌｌ　ｗｉｄｔｈ ﬁ①"
    ids = Encoder.load(node).encode([text])[0]
    assert Encoder.load(node).decode(ids) == "Full width fi1"
    assert AutoTokenizer.from_pretrained(node.directory / "hf")(text)["input_ids"] == ids.tolist()


def test_bytes_of_characters_without_a_piece_are_counted(node, encoder):
    ids = encoder.encode(["the 𠮷"])[0]
    assert encoder.is_fallback[ids].sum() == 4
    assert not encoder.is_fallback[encoder.encode(["\n the x~"])[0]].any()


def test_a_vocabulary_that_the_corpus_can_not_fill_names_the_one_that_fits(results):
    upstream = texts.corpus(results.root, ["a small corpus of a few words, and a few more words"] * 5)
    with pytest.raises(DataError, match="vocab_size 5000 is more than this text can fill") as caught:
        results.run("tokenizer", "en", settings(vocab_size=5000), corpus=upstream)
    assert upstream.id in str(caught.value)
    largest = int(str(caught.value).split("can fill: ")[1].split(" ")[0])
    found = results.run("tokenizer", "en", settings(vocab_size=largest), corpus=upstream)
    assert found.facts["vocab_size"] == largest


@pytest.mark.parametrize("train", [[], [""]])
def test_a_corpus_without_text_is_one_clear_error(results, train):
    with pytest.raises(DataError, match="the train split holds no text to train on"):
        results.run("tokenizer", "en", settings(), corpus=texts.corpus(results.root, train, ["a"], ["b"]))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"vocab_size": 260}, "leaves no room beside the 260 fixed pieces"),
        ({"byte_fallback": False}, "byte_fallback has no say in kind: byte_level_bpe"),
        ({"character_coverage": 1.0}, "character_coverage has no say"),
        ({"num_threads": 4}, "num_threads has no say"),
    ],
)
def test_settings_that_can_not_be_are_refused_before_anything_runs(changed, words):
    with pytest.raises(ValidationError, match=words):
        settings(**changed)


@pytest.mark.parametrize("data", [b"", b"\xff", b"{}", b"[]", b'{"pre_tokenizer": {"pretokenizers": []}}'])
def test_a_file_that_is_no_byte_level_model_is_refused(data):
    with pytest.raises(DataError, match="not a byte-level BPE"):
        ByteLevel(data)
