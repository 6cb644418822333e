"""What a section of the page is made of. Each block names the nodes that its figures are from; the template draws it.

Text in a block is plain: the template escapes it. Only the pictures (`Markup`) are put in as they are, and they are made by
`smelt.report.chart` and `smelt.report.graph`, which escape.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from smelt.plan.manifest import Manifest
from smelt.report.chart import Series


@dataclass(frozen=True)
class Bar:
    """A value drawn in its cell: all parts are shares of the cell's width, 0 to 1."""

    text: str
    share: float
    low: float | None = None
    """Where the interval begins, if there is one."""
    high: float | None = None


@dataclass(frozen=True)
class Column:
    name: str
    numeric: bool = True
    hint: str = ""
    """What the column means, shown on hover."""
    kind: str = ""
    """``still`` does not wrap, ``refs`` is a list of nodes, ``prose`` holds sentences."""

    @property
    def look(self) -> str:
        """Class of the style sheet."""
        return "n" if self.numeric else self.kind


@dataclass(frozen=True)
class Table:
    """`rows` hold strings, `Bar`s or `Manifest`s (drawn as a link to the node), one for each column; None is an empty cell."""

    kind = "table"
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    sources: Sequence[Manifest] = ()
    note: str = ""
    strong: frozenset[int] = frozenset()
    """Rows to emphasise: what the table is about, between its references."""

    @property
    def wide(self) -> bool:
        """Whether it takes the whole width of the page."""
        cells = [cell for row in self.rows for cell in row]
        texts = sum(not column.numeric for column in self.columns[1:])
        return len(self.columns) + texts > 5 or any(isinstance(cell, Bar) and cell.low is not None for cell in cells)


@dataclass(frozen=True)
class Picture:
    kind = "picture"
    title: str
    image: Markup
    sources: Sequence[Manifest] = ()
    legend: Sequence[Series] = ()
    """The lines of a chart, to be named above it."""
    note: str = ""
    wide: bool = False


@dataclass(frozen=True)
class Terms:
    """Pairs of a name and its value."""

    kind = "terms"
    title: str
    pairs: Sequence[tuple[str, str]]
    sources: Sequence[Manifest] = ()
    note: str = ""
    wide: bool = False


@dataclass(frozen=True)
class MatrixCell:
    count: int
    share: float
    """Of its row: how dark the cell is."""


@dataclass(frozen=True)
class Matrix:
    """A confusion matrix: `rows[true][predicted]`."""

    kind = "matrix"
    title: str
    labels: Sequence[str]
    rows: Sequence[Sequence[MatrixCell]]
    sources: Sequence[Manifest] = ()
    note: str = ""


@dataclass(frozen=True)
class Turn:
    speaker: str
    text: str
    kept: bool = False
    """The reference answer of the data, not the model's."""


@dataclass(frozen=True)
class Samples:
    """Conversations, each a list of turns."""

    kind = "samples"
    title: str
    conversations: Sequence[Sequence[Turn]]
    sources: Sequence[Manifest] = ()
    note: str = ""


@dataclass(frozen=True)
class Headline:
    """One of the few figures at the top."""

    name: str
    value: str
    beside: str
    source: Manifest


@dataclass(frozen=True)
class Section:
    id: str
    title: str
    blocks: list[Any] = field(default_factory=list)
    about: str = ""
