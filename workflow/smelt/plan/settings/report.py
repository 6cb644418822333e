"""Settings of the report: one HTML page of an experiment's figures."""

from pydantic import Field, PositiveInt

from smelt.plan.settings.base import Settings


class Report(Settings):
    """What the page of an experiment says of itself. Its figures come from the nodes and can't be set."""

    title: str = ""
    """Heading of the page; empty: the experiment's name."""

    introduction: str = Field("", max_length=10_000)
    """A paragraph of your own (plain text) above the figures: what the experiment is for, what to look at."""

    samples: PositiveInt = 6
    """Dialogue samples shown for each fine-tuned model; the evaluate node keeps the others."""

    curve_points: int = Field(300, ge=10, le=5_000)
    """Points drawn of a training curve. A longer curve is drawn as means over equal stretches; the node keeps every row."""
