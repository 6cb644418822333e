"""Tasks: labelled texts or dialogue, for fine-tuning and evaluation."""

from typing import Annotated, Literal, Self

from pydantic import Field, PositiveInt, field_validator, model_validator

from smelt.plan.settings.base import Settings
from smelt.plan.settings.corpus import Cleaning, Deduplication, Splits
from smelt.plan.settings.source import Source


class ColumnLabel(Settings):
    """The label stands in a column."""

    by: Literal["column"]
    """The label stands in a column."""
    column: str
    """Which one (a key, in JSON)."""
    names: dict[str, str] = {}
    """Value in the data → label. Rows with another value are left out and counted. Empty: the value is the label."""


class RatingLabel(Settings):
    """Two labels from a number; what lies within the margin of the centre is left out and counted."""

    by: Literal["rating"]
    """Two labels from a number."""
    column: str
    """Where the number stands (a key, in JSON)."""
    centre: float = 0.0
    """The undecided rating."""
    margin: Annotated[float, Field(ge=0)] = 0.0
    """Least distance from the centre; a row just as far is kept. With 0 the centre itself is left out."""
    low: str = "negative"
    """Label below the centre."""
    high: str = "positive"
    """Label above the centre."""


class FileLabel(Settings):
    """The label follows from the file's name, as where each class has a folder."""

    by: Literal["file"]
    """The label follows from the file's name."""
    names: dict[str, str] = Field(min_length=1)
    """Glob of file names → label; the first that fits counts. A file that fits none is an error."""


Label = Annotated[ColumnLabel | RatingLabel | FileLabel, Field(discriminator="by")]


class _Task(Settings):
    sources: list[Source] = Field(min_length=1)
    """Where the data comes from, in this order."""
    cleaning: Cleaning = Cleaning()
    """What is altered and what is left out, in each text or message."""
    splits: Splits = Splits(valid=0.1, test=0.1)
    """What is held out."""
    seed: int = 1
    """Which rows are drawn and which are held out; also the seed of the MinHash signatures."""
    max_rows: PositiveInt | None = None
    """Draw at random so many rows of those that are left after cleaning."""


class Classification(_Task):
    """Texts, each with one label."""

    kind: Literal["classification"]
    """Texts, each with one label."""
    format: Literal["table", "lines", "text", "jsonl", "json"]
    """What a row is: a line of a table, a line, a whole file, an object on a line, an element of a JSON list."""
    columns: list[str] | None = None
    """Names of a table's columns. Left out: the first line has them."""
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = "\t"
    """Character between the columns of a table."""
    quotes: bool = False
    """Whether a table has values in double quotes, as CSV does (a value may then hold line breaks)."""
    text: str = "text"
    """Column or key of the text."""
    label: Label
    """Where the label comes from."""
    deduplication: Deduplication = Deduplication(threshold=0.5, shingle=2)
    """What counts as a copy and what becomes of it. Copies that disagree on the label are all dropped."""

    @field_validator("columns")
    @classmethod
    def _columns_differ(cls, value: list[str] | None) -> list[str] | None:
        if value is not None and (not value or len(set(value)) < len(value)):
            raise ValueError("names a column twice or none at all; give each column a name of its own")
        return value

    @model_validator(mode="after")
    def _label_can_be_found(self) -> Self:
        column = None if isinstance(self.label, FileLabel) else self.label.column
        if self.format in ("lines", "text") and column is not None:
            raise ValueError(
                f"format {self.format!r} has no column {column!r}; use the format 'table', or label by file"
            )
        if self.format == "table" and self.columns is not None:
            for name in filter(None, (self.text, column)):
                if name not in self.columns:
                    raise ValueError(f"no column is named {name!r}; the columns are {', '.join(self.columns)}")
        return self


class Dialogue(_Task):
    """Conversations of a user and an assistant."""

    kind: Literal["dialogue"]
    """Conversations of a user and an assistant."""
    format: Literal["chitchat", "chatterbot", "messages"]
    """What the files are: the JSON of the chitchat_dataset release, the YAML of the chatterbot_corpus release, or JSON lines with a list `messages` of `role` and `content`."""
    turns: Literal["pairs", "conversation"] = "pairs"
    """A row is two adjacent turns, or as much of a conversation as `max_turns` allows."""
    max_turns: Annotated[int, Field(ge=2)] = 8
    """Longest row of `conversation`; what is longer is cut into several."""
    personal: Literal["drop", "keep"] = "drop"
    """Messages in which something looks like an e-mail address or a telephone number. What surrounds a dropped message is not joined."""
    deduplication: Deduplication = Deduplication(near="drop", threshold=0.6, shingle=2)
    """What counts as a copy and what becomes of it. All rows of a conversation lie in one split."""


Task = Annotated[Classification | Dialogue, Field(discriminator="kind")]
