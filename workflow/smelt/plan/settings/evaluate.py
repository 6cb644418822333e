"""Evaluation: how much of the test split is measured, and how."""

from typing import Annotated

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt, model_validator

from smelt.plan.settings.base import Settings


class Evaluate(Settings):
    """Measure a language model (perplexity, bits per byte), a classifier (accuracy, macro-F1) or a dialogue model (answers) on the test split."""

    references: bool = True
    """Measure beside it what needs no network or no training: the unigram model; the majority class and TF-IDF with logistic regression; the model before fine-tuning."""
    eval_batch_size: PositiveInt = 64
    """Sequences at once."""
    sequence_length: Annotated[int, Field(ge=2)] | None = None
    """Tokens that the language model sees at once. Unset: all that the network can take."""
    stride: PositiveInt | None = None
    """Tokens by which the window moves. Unset: by its length, so that windows are disjoint. Smaller: more context for each token, and more work."""
    max_test_rows: PositiveInt | None = None
    """Take only the first so many rows of a task's test split (documents, for a language model). Unset: all."""
    max_new_tokens: PositiveInt = 32
    """Longest answer that a dialogue model may generate."""
    generated_answers: PositiveInt = 32
    """Prompts of the test split that get an answer, for latency and repetition."""
    samples: NonNegativeInt = 6
    """Answers that are shown."""
    temperature: NonNegativeFloat = 0.0
    """0 takes the likeliest token each time; above it tokens are sampled."""
    seed: NonNegativeInt = 42
    """Of sampling."""
    cpu_threads: PositiveInt = 1
    """Threads of the arithmetic on a CPU (they change sums in the last bits)."""

    @model_validator(mode="after")
    def _stride_within_window(self) -> "Evaluate":
        if self.stride and self.sequence_length and self.stride > self.sequence_length:
            raise ValueError(
                f"stride {self.stride} is beyond sequence_length {self.sequence_length}: tokens between would not be scored"
            )
        return self
