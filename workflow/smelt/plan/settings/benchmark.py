"""Benchmark: which training steps are timed."""

from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from smelt.plan.settings.base import Settings
from smelt.plan.settings.finetuning import Lora


class Benchmark(Settings):
    """Time training steps of the converted model on its own training text, by precision and method. The first row is what others are compared with."""

    precisions: Annotated[list[Literal["fp32", "bf16", "fp16"]], Field(min_length=1)] = ["fp32", "bf16"]
    """``bf16`` and ``fp16`` compute in half precision with fp32 weights, as in fine-tuning; ``fp16`` needs a GPU."""
    methods: Annotated[list[Literal["full", "lora"]], Field(min_length=1)] = ["full", "lora"]
    """All weights, or adapters beside frozen ones."""
    lora: Lora = Lora()
    """Shape of the adapters."""
    repeats: PositiveInt = 3
    """Timed rounds; each round goes once through all cells, and the median over rounds is reported."""
    steps: PositiveInt = 2
    """Training steps of a cell in a round."""
    batch_size: PositiveInt = 8
    """Sequences in a step."""
    sequence_length: Annotated[int, Field(ge=2)] | None = None
    """Tokens of a sequence. Unset: all that the network can take."""
    slow_batch_size: PositiveInt = 1
    """Sequences in a step of half precision on a CPU that computes it in software (some 19 times slower)."""
    seed: NonNegativeInt = 42
    """Of which sequences are taken."""
    cpu_threads: PositiveInt = 1
    """Threads of the arithmetic on a CPU."""
