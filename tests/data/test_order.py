"""The order of samples: every sample once an epoch, the same for every world size, in constant memory."""

import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smelt.data.order import BLOCK, Order


@pytest.mark.parametrize(
    "size", [*range(1, 70), 127, 128, 129, 1000, 4095, 4096, 4097, BLOCK - 1, BLOCK, BLOCK + 1, 100_000]
)
def test_an_epoch_reads_every_sample_exactly_once(size):
    order = Order(size, seed=7)
    for epoch in (0, 1, 5):
        samples = order.positions(epoch * size, (epoch + 1) * size)
        assert samples.dtype == np.int64
        assert np.array_equal(np.sort(samples), np.arange(size))


def test_every_size_up_to_some_thousands_is_permuted():
    for size in range(1, 3000, 7):
        assert np.array_equal(np.sort(Order(size, seed=size).positions(0, size)), np.arange(size))


@pytest.mark.parametrize("size", [10**6 + 3, 10**9, 10**11, 2**37 + 1])
def test_huge_epochs_are_permutations_by_sampling_and_inversion(size):
    order, rng = Order(size, seed=3), np.random.default_rng(0)
    for start in rng.integers(0, size - 1000, 8):
        samples = order.positions(3 * size + int(start), 3 * size + int(start) + 1000)
        assert samples.min() >= 0
        assert samples.max() < size
        assert len(np.unique(samples)) == 1000
        # Two positions with one sample would have one inverse: that each comes back to its own proves that they differ.
        assert np.array_equal(order.invert(3, samples), np.arange(start, start + 1000))
    anywhere = rng.integers(0, size, 1000)
    places = order.invert(2, anywhere)
    assert [int(order.positions(2 * size + int(p), 2 * size + int(p) + 1)[0]) for p in places[:20]] == anywhere[
        :20
    ].tolist()


@given(
    size=st.integers(1, 5000),
    seed=st.integers(0, 2**40),
    start=st.integers(0, 20_000),
    cuts=st.lists(st.integers(0, 3000), max_size=6),
)
@settings(max_examples=60, deadline=None)
def test_a_range_is_the_same_however_it_is_cut(size, seed, start, cuts):
    whole = Order(size, seed).positions(start, start + sum(cuts))
    order, parts = Order(size, seed), []
    for cut in cuts:
        parts.append(order.positions(start, start + cut))
        start += cut
    assert np.array_equal(whole, np.concatenate(parts) if parts else np.empty(0))


@pytest.mark.parametrize("world", [1, 2, 3, 4, 8])
def test_the_global_batch_is_the_same_for_every_world_size(world):
    size, batch = 1000, 24
    single = Order(size, 5)
    for step in range(100):
        expected = single.positions(step * batch, (step + 1) * batch)
        share = batch // world
        ranks = [
            Order(size, 5).positions(step * batch + r * share, step * batch + (r + 1) * share) for r in range(world)
        ]
        assert np.array_equal(np.concatenate(ranks), expected)


def test_seeds_and_epochs_give_other_orders():
    orders = [
        tuple(Order(1000, seed).positions(epoch * 1000, (epoch + 1) * 1000))
        for seed in (0, 1, 2)
        for epoch in (0, 1, 2)
    ]
    assert len(set(orders)) == 9


def test_the_order_of_a_seed_never_changes():
    """Written down from the first version: a resumed run of an older checkout must go on in the same order."""
    assert Order(1000, 42).positions(0, 8).tolist() == [952, 758, 455, 356, 321, 497, 16, 794]
    assert Order(10**11, 42).positions(10**11 + 123_456_789, 10**11 + 123_456_793).tolist() == [
        16995855960,
        3206263066,
        37032335438,
        8828016981,
    ]


def chi_square(a, b, size, cells=64):
    counts, _, _ = np.histogram2d(a, b, bins=[np.linspace(0, size, cells + 1)] * 2)
    expected = len(a) / cells**2
    return float(((counts - expected) ** 2 / expected).sum())


def test_an_order_is_as_random_as_a_shuffle():
    """Chi-square with 4,095 degrees of freedom: 4,095 +- 90.5. The mean over eight seeds lies within 4.5 of its deviations."""
    size = 10**6
    place, pair, epochs = [], [], []
    for seed in range(8):
        order = Order(size, seed)
        samples = order.positions(0, size)
        place.append(chi_square(np.arange(size), samples, size))
        pair.append(chi_square(samples[:-1], samples[1:], size))
        epochs.append(chi_square(samples, order.positions(size, 2 * size), size))
    for found in (place, pair, epochs):
        assert abs(np.mean(found) - 4095) < 4.5 * 90.5 / 8**0.5


def test_memory_does_not_grow_with_the_number_of_samples():
    order = Order(10**11, 1)
    order.positions(0, 64)
    tracemalloc.start()
    for step in range(30):
        order.positions(step * 10**9, step * 10**9 + 64)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8e6


def test_an_order_goes_through_pickle_without_its_block():
    order = Order(10**6, 1)
    before = order.positions(10, 20)
    data = pickle.dumps(order)
    assert len(data) < 1000
    assert np.array_equal(pickle.loads(data).positions(10, 20), before)


@pytest.mark.parametrize("size", [0, -1, 2**62 + 1])
def test_a_size_that_can_not_be_ordered_is_refused(size):
    with pytest.raises(ValueError, match="between 1 and"):
        Order(size, 0)


def test_a_backward_range_is_refused():
    with pytest.raises(ValueError, match="no range"):
        Order(10, 0).positions(5, 3)
