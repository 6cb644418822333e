"""Numbers as people read them."""

import pytest

from smelt.report.numbers import brief, compact, duration, number, quantity, reading, size, words


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (1234567, "1,234,567"), (0.0, "0"), (0.66666, "0.6667"), (2.2461, "2.246"), (67.2, "67.20"), (562.12, "562.1"),
     (18220.4, "18,220"), (2.0e-7, "2.00e-07"), (-3.5, "-3.500"), (True, "True")],
)  # fmt: skip
def test_a_number_keeps_about_four_digits(value, shown):
    assert number(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(999, "999"), (1_000, "1.00 k"), (1_071_872, "1.07 M"), (999_999, "1.00 M"), (124_000_000, "124 M"), (12_345, "12.3 k"), (7e10, "70.0 B")],
)  # fmt: skip
def test_a_headline_is_scaled(value, shown):
    assert compact(value) == shown


@pytest.mark.parametrize(
    ("seconds", "long", "short"),
    [(0.04, "0.0 s", "0.0 s"), (8.1, "8.1 s", "8.1 s"), (84.9, "1 min 25 s", "85 s"), (59.96, "1 min", "60 s"), (3599.6, "1 h", "60 min"),
     (18_420, "5 h 7 min", "5.1 h"), (183_600, "2 d 3 h", "51.0 h")],
)  # fmt: skip
def test_a_duration_has_at_most_two_units(seconds, long, short):
    assert duration(seconds) == long
    assert brief(seconds) == short


def test_bytes_are_in_decimal_units():
    assert size(120_004) == "120 kB"
    assert size(999) == "999 B"


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [(0.21, "share", "21.0 %"), (0.002, "share of tokens", "0.2 %"), (0.1312, "s", "131.2 ms"), (84.9, "s", "1 min 25 s"),
     (4.2084, "nats per token", "4.208 nats per token"), (12, "", "12"), ("n/a", "", "n/a")],
)  # fmt: skip
def test_a_quantity_is_written_with_its_unit(value, unit, shown):
    assert quantity(value, unit) == shown


def test_a_unit_that_the_name_says_is_not_said_twice():
    assert reading({"metric": "tokens_per_word", "value": 1.7312, "unit": "tokens/word"}) == "1.731"
    assert reading({"metric": "bits per byte", "value": 2.2461, "unit": "bits"}) == "2.246"
    assert reading({"metric": "perplexity", "value": 67.2, "unit": "per token"}) == "67.20"
    assert reading({"metric": "answer_latency_p50", "value": 131.2, "unit": "ms"}) == "131.2 ms"
    assert reading({"metric": "documents", "value": 96, "unit": "documents"}) == "96"
    assert reading({"metric": "loss", "value": 4.2084, "unit": "nats per token"}) == "4.208 nats per token"


@pytest.mark.parametrize("spelling", ["macro_f1", "macro F1", "macro-f1", "macro-F1"])
def test_a_metric_has_one_name_however_a_stage_spells_it(spelling):
    assert words(spelling) == "macro-F1"
