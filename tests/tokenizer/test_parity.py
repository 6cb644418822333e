"""The Hugging Face export gives the ids of the trained model, on more than ten thousand lines of everything, and gives the text back."""

import json

import pytest

import texts
from smelt.data.encoder import BOS, EOS, PAD, UNK, normaliser
from smelt.data.sentence_pieces import SentencePieces
from smelt.plan.errors import DataError
from smelt.plan.settings.tokenizer import Tokenizer
from smelt.tokenizer.export import fast, save
from smelt.tokenizer.parity import prove
from smelt.tokenizer.sample import lines
from smelt.tokenizer.training import train


def trained(directory, corpus, **settings):
    settings = Tokenizer(**settings)
    corpus = map(normaliser(settings.normalization), corpus)
    encoder = SentencePieces(train(lines(corpus), settings), settings.normalization)
    save(fast(encoder), directory)
    return encoder


def auto(directory):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(directory)


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def pair(request, tmp_path_factory):
    """The encoder, and AutoTokenizer's reading of its export. The corpus holds special pieces as text, as a page on HTML or on language models would."""
    directory = tmp_path_factory.mktemp(request.param)
    corpus = [*texts.library(6), *texts.mixed(), *["<s>a</s> <pad> ▁ <0x41> ababababa aaaaaaaaa\n" * 30] * 3]
    return trained(directory, corpus, kind=request.param, vocab_size=1500), auto(directory)


def test_the_export_gives_the_ids_of_the_model_on_ten_thousand_lines(pair, many):
    encoder, exported = pair
    for text, ids, other in zip(
        many, encoder.encode(many, 2), exported(many, add_special_tokens=False)["input_ids"], strict=True
    ):
        assert ids.tolist() == other, repr(text)


def test_both_give_the_text_back(pair, many):
    encoder, exported = pair
    ids = encoder.encode(many)
    assert [encoder.decode(each) for each in ids] == many
    assert exported.batch_decode([each.tolist() for each in ids]) == many


def test_the_export_knows_its_special_tokens(pair):
    encoder, exported = pair
    assert len(exported) == exported.vocab_size == encoder.vocab_size == 1500
    assert (exported.pad_token_id, exported.bos_token_id, exported.eos_token_id, exported.unk_token_id) == (
        PAD,
        BOS,
        EOS,
        UNK,
    )
    assert [exported.convert_ids_to_tokens(i) for i in (PAD, BOS, EOS, UNK)] == ["<pad>", "<s>", "</s>", "<unk>"]
    ids = [BOS, *encoder.encode(["a b"])[0].tolist(), EOS, PAD]
    assert exported.decode(ids, skip_special_tokens=True) == encoder.decode(ids) == "a b"


def test_a_model_gets_no_token_types_and_padding_on_the_right(pair):
    """GPT-2 would add the embeddings of words for token types."""
    batch = pair[1](["a", "a longer text"], padding=True)
    assert set(batch) == {"input_ids", "attention_mask"}
    assert batch["input_ids"][0][-1] == PAD
    assert batch["attention_mask"][0][-1] == 0


def test_special_tokens_in_text_can_be_asked_for(pair):
    """As a chat template needs it."""
    assert pair[1]("</s>", split_special_tokens=False)["input_ids"] == [EOS]
    assert pair[1]("</s>")["input_ids"] != [EOS]


def test_saving_the_loaded_export_again_keeps_the_ids(pair, many, tmp_path):
    pair[1].save_pretrained(tmp_path)
    again = auto(tmp_path)
    assert again(many[-500:])["input_ids"] == pair[1](many[-500:])["input_ids"]


@pytest.mark.parametrize(
    "settings",
    [
        {"byte_fallback": False, "character_coverage": 0.99},
        {"kind": "unigram", "byte_fallback": False},
        {"normalization": "nfkc"},
        {"split_digits": True, "max_piece_length": 4},
        {"character_coverage": 1.0, "vocab_size": 900},
    ],
    ids=str,
)
def test_every_setting_keeps_the_ids_equal(tmp_path, many, settings):
    encoder = trained(tmp_path, [*texts.library(1), *texts.mixed()], **{"vocab_size": 800, **settings})
    some = many[::5]
    assert [ids.tolist() for ids in encoder.encode(some)] == auto(tmp_path)(some)["input_ids"]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_real_text_in_two_languages_keeps_the_ids_equal(tmp_path, shared_data, kind):
    english = (shared_data / "wikitext-2" / "valid.txt").read_text().splitlines(keepends=True)[:1500]
    chinese = (shared_data / "thucnews-titles" / "dev.txt").read_text().splitlines(keepends=True)[:4000]
    encoder = trained(tmp_path, ["".join(english), "".join(chinese)], kind=kind, vocab_size=6000)
    both = [*english, *chinese]
    ids = encoder.encode(both, 2)
    assert [each.tolist() for each in ids] == auto(tmp_path)(both)["input_ids"]
    assert [encoder.decode(each) for each in ids] == both


def test_an_export_that_gives_other_ids_is_refused_with_the_text(tmp_path):
    encoder = trained(tmp_path, texts.mixed(), vocab_size=700)
    prove(tmp_path, encoder, texts.mixed(8, 5), lossless=True)
    file = tmp_path / "tokenizer.json"
    altered = json.loads(file.read_text())
    altered["model"]["merges"].reverse()
    file.write_text(json.dumps(altered))
    with pytest.raises(DataError, match="the exported tokenizer gives other ids than the trained model: from place"):
        prove(tmp_path, encoder, texts.mixed(8, 5), lossless=True)


def test_an_export_that_loses_text_is_refused(tmp_path):
    encoder = trained(tmp_path, texts.mixed(), vocab_size=700)
    file = tmp_path / "tokenizer.json"
    altered = json.loads(file.read_text())
    altered["decoder"] = {"type": "Fuse"}
    file.write_text(json.dumps(altered))
    with pytest.raises(DataError, match="does not give this text back"):
        prove(tmp_path, encoder, [], lossless=True)
