"""Corpora: where the text comes from, and what is done to it before it is tokenised."""

from typing import Annotated, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from smelt.plan.settings.base import Settings
from smelt.plan.settings.source import Source

Share = Annotated[float, Field(ge=0, lt=1)]


class Cleaning(Settings):
    """What is altered and what is left out. By default text is kept as it is; each step is counted in the card."""

    unicode: Literal["keep", "nfc", "nfkc"] = "keep"
    """Normal form. `nfkc` also changes what is seen: full-width punctuation becomes ASCII, ligatures are taken apart."""
    control_characters: Literal["keep", "remove"] = "keep"
    """Control characters other than tab and line break, byte order marks, and code points that are no characters."""
    whitespace: Literal["keep", "trim", "collapse"] = "keep"
    """`trim`: no spaces at the ends of lines, at most one empty line in a row. `collapse`: one space for a run of them as well."""
    markup_lines: Literal["keep", "drop"] = "keep"
    """Lines with rests of wiki markup, HTML tags or entities."""
    min_characters: PositiveInt = 1
    """Shorter texts are left out."""
    max_characters: PositiveInt | None = None
    """Longer texts are left out."""
    max_repeated_lines: Share | None = None
    """Largest share of lines that repeat an earlier line of the text (Rae et al. 2021, https://arxiv.org/abs/2112.11446, use 0.3)."""
    max_repeated_ngrams: Share | None = None
    """Largest share of 10-grams (of words; of characters in Chinese, Japanese and Thai) that repeat an earlier one of the text."""

    @model_validator(mode="after")
    def _range_is_not_empty(self) -> Self:
        if self.max_characters is not None and self.max_characters < self.min_characters:
            raise ValueError(
                f"max_characters={self.max_characters} is below min_characters={self.min_characters}: no text fits"
            )
        return self


class Deduplication(Settings):
    """Copies. Exact ones (equal but for case and white space) are always dropped; this says what near ones are and what becomes of them.

    Near copies are found by MinHash and locality-sensitive hashing (Broder 1997; Leskovec, Rajaraman & Ullman, Mining of Massive Datasets, ch. 3).
    """

    near: Literal["group", "drop", "ignore"] = "group"
    """`group`: kept, all in one split, so that none leaks. `drop`: only the first is kept. `ignore`: not looked for."""
    threshold: Annotated[float, Field(gt=0, le=1)] = 0.7
    """Jaccard similarity of the shingles from which two texts are near copies."""
    shingle: Annotated[int, Field(ge=1, le=32)] = 5
    """Words in a shingle; characters in Chinese, Japanese and Thai."""
    permutations: Annotated[int, Field(ge=16, le=1024)] = 128
    """Values in a MinHash signature: more find pairs at the threshold more surely."""


class Splits(Settings):
    """Shares of the near-duplicate groups that are held out; the rest trains."""

    valid: Share = 0.01
    """Share for watching the training."""
    test: Share = 0.01
    """Share for the final figures."""

    @model_validator(mode="after")
    def _leaves_something_to_train_on(self) -> Self:
        if self.valid + self.test >= 1:
            raise ValueError(
                f"valid + test is {self.valid + self.test:g}: nothing is left to train on; make them smaller"
            )
        return self


class MediaWiki(Settings):
    """What of a MediaWiki dump is kept beside the text of the articles."""

    drop_sections: list[str] = []
    """Headings whose sections are left out, such as `References`, upper and lower case alike."""


class Corpus(Settings):
    """Text to train a language model on: downloaded, cleaned, without copies, in three splits."""

    sources: list[Source] = Field(min_length=1)
    """Where the text comes from, in this order."""
    format: Literal["text", "paragraphs", "lines", "jsonl", "json", "mediawiki"]
    """What a document is: a whole file, a paragraph (between empty lines), a line, an object on a line, an element of a JSON list, an article of a MediaWiki XML dump."""
    text_key: str = "text"
    """Key of the text in the objects of `jsonl` and `json`."""
    mediawiki: MediaWiki = MediaWiki()
    """For the format `mediawiki`."""
    cleaning: Cleaning = Cleaning()
    """What is altered and what is left out."""
    deduplication: Deduplication = Deduplication()
    """What counts as a copy and what becomes of it."""
    splits: Splits = Splits()
    """What is held out."""
    seed: int = 1
    """Which groups are held out; also the seed of the MinHash signatures."""
    max_documents: PositiveInt | None = None
    """Stop after so many documents are kept."""
