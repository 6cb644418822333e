"""Proof that the export gives the ids of the trained model, and that text comes back, on text that is there and text that is hard."""

from collections.abc import Iterable
from pathlib import Path

from smelt.data.encoder import Encoder
from smelt.plan.errors import DataError

HARD = (
    "",
    " ",
    "  leading and   inner spaces  ",
    "\ttabs\t\tand\r\nline breaks\n\n\n",
    "def f(x):\n    return x  # code\n\n\nif a == b:\n        pass",
    "全角，标点。！？（）　和全角空格",
    "罕见字𠮷𪚥，繁體字，ｆｕｌｌｗｉｄｔｈ",
    "emoji 👩‍👩‍👧 🇨🇳 👍🏽 ☺️",
    "cafe\u0301 e\u0301\u0323 नमस्ते ไทย",
    "</s><s><pad><unk><0x41> [MASK] ▁ ▁▁ ▅ <|endoftext|>",
    "\x00\x01\x1f\x7f\u200b\ufeff\ufffd\u2028",
    "aaaaaaa......-----======ababababab",
)
"""What conversions are known to get wrong: white space, characters without a piece, text that looks like a special piece, runs that can be merged in two ways."""


def prove(directory: Path, encoder: Encoder, texts: Iterable[str], lossless: bool) -> None:
    """Compare the Hugging Face tokenizer in `directory`, loaded anew, with `encoder`. Raises DataError at the first text that differs."""
    from transformers import PreTrainedTokenizerFast

    loaded = PreTrainedTokenizerFast.from_pretrained(directory)
    texts = [*HARD, *texts]
    for text, ids, exported in zip(
        texts, encoder.encode(texts), loaded(texts, add_special_tokens=False)["input_ids"], strict=True
    ):
        if ids.tolist() != exported:
            raise DataError(
                _told("the exported tokenizer gives other ids than the trained model", text, ids.tolist(), exported)
            )
        if lossless:
            for back in (encoder.decode(ids), loaded.decode(exported)):
                if back != text:
                    raise DataError(_told("the tokenizer does not give this text back", text, list(text), list(back)))


def _told(problem: str, text: str, one: list, other: list) -> str:
    place = next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))
    return (
        f"{problem}: from place {place}, {one[place : place + 6]} and {other[place : place + 6]}, in a text of {len(text)} characters "
        f"beginning {text[:60]!r}. Set kind: bpe and normalization: identity, which are exact, or take the text out of the corpus"
    )
