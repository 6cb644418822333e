"""The network: its shape, not its training."""

from typing import Annotated, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from smelt.plan.settings.base import Settings


class Model(Settings):
    """A decoder-only transformer, built from random weights. The defaults are GPT-2 small (Radford et al. 2019)."""

    architecture: Literal["gpt2"] = "gpt2"
    """Which network of transformers: ``gpt2`` has learned positions, layer norm before each block and GELU."""

    hidden_size: PositiveInt = 768
    """Width of the residual stream. A multiple of `num_attention_heads`."""

    num_hidden_layers: PositiveInt = 12
    """Blocks of attention and feed-forward."""

    num_attention_heads: PositiveInt = 12
    """Heads of each attention; each is `hidden_size` / `num_attention_heads` wide."""

    intermediate_size: PositiveInt | None = None
    """Width inside the feed-forward block; left out, 4 × `hidden_size`."""

    max_position_embeddings: Annotated[int, Field(ge=2)] = 1024
    """Longest sequence that the network can take."""

    hidden_act: Literal["gelu_new", "gelu_pytorch_tanh", "gelu", "relu", "silu"] = "gelu_new"
    """Activation inside the feed-forward block; ``gelu_new`` is the tanh approximation that GPT-2 uses,
    ``gelu_pytorch_tanh`` the same function in one kernel of torch."""

    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of activations dropped while training: of embeddings, attention weights and block outputs alike. 0 suits
    training in which text is seen once or a few times."""

    layer_norm_epsilon: Annotated[float, Field(gt=0)] = 1e-5
    """Added to the variance in layer norms."""

    initializer_range: Annotated[float, Field(gt=0)] = 0.02
    """Standard deviation of the initial weights; projections into the residual stream are scaled by 1/√(2 × layers)
    as in GPT-2."""

    tie_word_embeddings: bool = True
    """Whether the output layer is the transposed input embedding (Press & Wolf 2017); saves `vocab_size` ×
    `hidden_size` parameters."""

    attn_implementation: Literal["sdpa", "eager"] = "sdpa"
    """``sdpa`` is torch's fused attention, ``eager`` the plain one; they differ in rounding, speed and memory."""

    @model_validator(mode="after")
    def _heads_divide_width(self) -> Self:
        if self.hidden_size % self.num_attention_heads:
            nearest = self.num_attention_heads * max(1, round(self.hidden_size / self.num_attention_heads))
            raise ValueError(
                f"hidden_size {self.hidden_size} is no multiple of num_attention_heads {self.num_attention_heads}: "
                f"take {nearest} or another number of heads"
            )
        return self
