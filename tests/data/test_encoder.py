"""The encoder: any text comes back, ids depend on neither threads nor batching, and equal SentencePiece's own."""

import pickle
import random
import unicodedata

import numpy as np
import pytest
import sentencepiece

import texts
from smelt.data.encoder import BATCH, BOS, EOS, PAD, UNK
from smelt.data.sentence_pieces import SPACE, SentencePieces
from smelt.plan.errors import DataError
from smelt.plan.settings.tokenizer import Tokenizer
from smelt.tokenizer.sample import lines
from smelt.tokenizer.training import train

KINDS = ("bpe", "unigram")


@pytest.fixture(scope="module", params=KINDS)
def encoder(request):
    return SentencePieces(train(lines(texts.mixed()), Tokenizer(kind=request.param, vocab_size=700)))


@pytest.fixture(scope="module")
def varied():
    rng = random.Random(3)
    return [*texts.mixed(9, 30), *texts.library(3), *texts.hard(rng, 2000)]


def test_any_text_comes_back_exactly(encoder, varied):
    for text, ids in zip(varied, encoder.encode(varied), strict=True):
        assert encoder.decode(ids) == text


@pytest.mark.parametrize(
    "text",
    ["", " ", "\n", "\n\n\n", " a", "a ", "\t", "▁", "▁▁a▁", "a ▁ b", "▅", "\x00", "a\x00\nb", "　", "𠮷", "é", "</s>"],
)
def test_a_single_odd_text_comes_back_exactly(encoder, text):
    assert encoder.decode(encoder.encode([text])[0]) == text


def test_ids_are_those_of_sentencepiece_for_the_whole_text(encoder, varied):
    """All but texts with a literal `▁`, which SentencePiece takes for a space."""
    plain = [text for text in varied if SPACE not in text]
    processor = sentencepiece.SentencePieceProcessor(model_proto=encoder.model)
    assert [ids.tolist() for ids in encoder.encode(plain)] == processor.encode(plain)


def test_a_literal_space_mark_and_a_space_have_different_ids(encoder):
    mark, space = encoder.encode([f"a{SPACE}b", "a b"])
    assert mark.tolist() != space.tolist()


def test_special_pieces_in_a_text_are_text(encoder):
    for ids in encoder.encode(["<pad>", "<s>", "</s>", "<unk>", "x</s>y"]):
        assert not set(ids.tolist()) & {PAD, BOS, EOS, UNK}


def test_threads_and_batches_change_nothing(encoder, varied):
    expected = [ids.tolist() for ids in encoder.encode(varied)]
    for threads in (2, 3, 8):
        assert [ids.tolist() for ids in encoder.encode(varied, threads)] == expected
    assert [encoder.encode([text])[0].tolist() for text in varied[:200]] == expected[:200]
    rows = [{"id": i, "text": text} for i, text in enumerate(varied)]
    found = list(encoder.encode_documents(iter(rows), 2))
    assert [row for row, _ in found] == rows
    assert [ids.tolist() for _, ids in found] == expected


def test_documents_beyond_a_batch_keep_their_order_and_ids(encoder):
    once = texts.mixed(2, 1)[0]
    long = once * (BATCH // len(once))
    rows = [{"text": text} for text in (long, "", long, "end")]
    assert sum(len(row["text"]) for row in rows) > BATCH
    found = [ids for _, ids in encoder.encode_documents(rows)]
    assert [len(ids) for ids in found[1::2]] == [0, len(encoder.encode(["end"])[0])]
    assert np.array_equal(found[0], found[2])
    assert encoder.decode(found[0]) == long


def test_no_texts_give_no_ids(encoder):
    assert encoder.encode([]) == []
    assert list(encoder.encode_documents([])) == []


def test_ids_are_of_the_type_that_shards_store(encoder):
    ids = encoder.encode(["", "word"])
    assert all(each.dtype == np.dtype("<u2") for each in ids)
    assert (len(ids[0]), max(ids[1]) < encoder.vocab_size) == (0, True)


def test_an_encoder_goes_through_pickle(encoder):
    assert pickle.loads(pickle.dumps(encoder)).encode(["a b\nc"])[0].tolist() == encoder.encode(["a b\nc"])[0].tolist()


def test_without_bytes_the_line_break_has_a_piece_and_rare_characters_are_unknown():
    encoder = SentencePieces(train(lines(texts.mixed()), Tokenizer(vocab_size=500, byte_fallback=False)))
    ids = encoder.encode(["of the\n\nof 𠮷𠮷"])[0]
    assert UNK in ids
    assert ids.tolist().count(encoder.newline) == 2
    assert encoder.decode(encoder.encode(["of the\nof"])[0]) == "of the\nof"


def test_nfkc_is_that_of_unicode():
    encoder = SentencePieces(train(lines(texts.mixed()), Tokenizer(vocab_size=700)), "nfkc")
    for text in ("Ｆｕｌｌ　ｗｉｄｔｈ", "ẹ́", "ﬁ①", "Ａ́"):
        assert encoder.decode(encoder.encode([text])[0]) == unicodedata.normalize("NFKC", text)


def test_bytes_that_are_no_model_are_refused():
    with pytest.raises(DataError, match="not a SentencePiece model"):
        SentencePieces(b"no model at all")
