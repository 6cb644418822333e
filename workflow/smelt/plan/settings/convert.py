"""The Hugging Face export of a trained network."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, PositiveFloat, PositiveInt

from smelt.plan.settings.base import Settings


def _size(value: str) -> str:
    if not re.fullmatch(r"[1-9]\d*(KB|MB|GB)", value):
        raise ValueError(f"{value!r} is not a size: write a whole number and KB, MB or GB, such as 5GB")
    return value


class Convert(Settings):
    """Export to a directory that ``transformers`` loads, with proof that it computes the same as the training
    weights."""

    max_shard_size: Annotated[str, AfterValidator(_size)] = "5GB"
    """Largest weight file: a number and KB, MB or GB (of 1,000)."""

    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type of the exported weights. ``bfloat16`` halves the size and rounds each weight to 8 bits of precision."""

    parity_tolerance: PositiveFloat | None = None
    """Largest difference allowed between the logits of the export and of the training weights, both computed in
    float32. Left out: 1e-4 for ``float32``; for ``bfloat16``, whose weights are rounded, 0.05 × the largest logit."""

    parity_tokens: PositiveInt = 2048
    """Tokens of the validation split on which logits are compared."""

    cpu_threads: PositiveInt = 2
    """Threads of the arithmetic on a CPU. A setting and not the machine's number, since it changes sums in the last
    bits."""
