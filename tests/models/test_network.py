"""Networks from settings: the right number of parameters, the same weights for the same seed."""

import pytest
import torch

from smelt.models.network import build, configuration, parameter_count, untied
from smelt.plan.settings.model import Model

SPECIAL = {"pad": 0, "bos": 1, "eos": 2, "unk": 3}
TINY = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 16}


def network(seed=0, vocab_size=50, **more):
    return build(configuration(Model(**{**TINY, **more}), vocab_size, SPECIAL), seed)


def test_gpt2_small_has_as_many_parameters_as_published():
    with torch.device("meta"):
        model = build(configuration(Model(), 50_257, SPECIAL), 0)
    assert parameter_count(model) == 124_439_808  # transformers' GPT2LMHeadModel("gpt2"), 124 M in the model card


@pytest.mark.parametrize(("tied", "intermediate"), [(True, None), (False, 40)])
def test_the_parameters_are_those_of_the_shape(tied, intermediate):
    width, inner, vocabulary = 32, intermediate or 128, 50
    attention = width * 3 * width + 3 * width + width * width + width
    feed_forward = width * inner + inner + inner * width + width
    expected = vocabulary * width + 16 * width + 2 * (attention + feed_forward + 4 * width) + 2 * width
    expected += 0 if tied else vocabulary * width
    model = network(tie_word_embeddings=tied, intermediate_size=intermediate)
    assert parameter_count(model) == expected
    assert sum(tensor.numel() for tensor in untied(model).values()) == expected


def test_equal_seeds_give_equal_weights_whatever_was_drawn_before():
    first = untied(network())
    torch.rand(17)
    second, other = untied(network()), untied(network(seed=1))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["transformer.wte.weight"], other["transformer.wte.weight"])


def test_a_tied_output_is_not_listed_twice():
    assert "lm_head.weight" not in untied(network(tie_word_embeddings=True))
    assert "lm_head.weight" in untied(network(tie_word_embeddings=False))


def test_the_configuration_carries_what_the_settings_say():
    config = configuration(Model(**TINY, dropout=0.2, hidden_act="relu", attn_implementation="eager"), 50, SPECIAL)
    assert (config.resid_pdrop, config.embd_pdrop, config.attn_pdrop) == (0.2, 0.2, 0.2)
    assert (config.pad_token_id, config.bos_token_id, config.eos_token_id) == (0, 1, 2)
    assert config.activation_function == "relu"
    model = build(config, 0)
    assert model.config._attn_implementation == "eager"


def test_no_position_sees_what_comes_after_it():
    model = network().eval()
    tokens = torch.randint(4, 50, (1, 16), generator=torch.Generator().manual_seed(0))
    changed = tokens.clone()
    changed[0, 10] = (changed[0, 10] + 1) % 50
    with torch.no_grad():
        difference = (model(input_ids=tokens).logits - model(input_ids=changed).logits).abs().amax(-1)[0]
    assert float(difference[:10].max()) == 0
    assert float(difference[10:].min()) > 0
