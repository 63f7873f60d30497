"""Uniform population binning: what CDL14 wants of it, and the cuts against all others."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import naive_binning as naive

from mpitune.grammar.binning import Bins, bin_size, cuts, make_bins

FREQUENCIES = st.lists(st.integers(1, 3), min_size=1, max_size=11) | st.lists(
    st.integers(1, 400), max_size=9, min_size=1
)
"""Small ones, of which many cuts are equally good, and others."""


def as_array(frequencies: list[int]) -> np.ndarray:
    return np.array(frequencies, dtype=np.int64)


@pytest.mark.kernel
@given(FREQUENCIES, st.integers(1, 6))
def test_no_cuts_are_better_and_equal_ones_lie_farther_right(frequencies: list[int], bins: int) -> None:
    found = tuple(cuts(as_array(frequencies), bins).tolist())
    if len(frequencies) <= bins:
        assert found == tuple(range(len(frequencies) + 1))
        return
    size = bin_size(as_array(frequencies), bins)
    assert float(size) == pytest.approx(float(naive.bin_size(frequencies, bins)), rel=1e-7)
    costs = {cut: naive.cost(frequencies, size, cut) for cut in naive.all_cuts(len(frequencies), bins)}
    assert found == min(costs, key=lambda cut: (costs[cut], cut[::-1]))


VALUES = st.lists(
    st.tuples(st.integers(-500, 500), st.integers(1, 50)), min_size=1, max_size=60, unique_by=lambda pair: pair[0]
)


def bins_of(counted: list[tuple[int, int]], most: int) -> tuple[np.ndarray, np.ndarray, Bins]:
    values, frequencies = np.array(sorted(counted)).T
    return values.astype(float), frequencies, make_bins("H", values.astype(float), frequencies, most)


@given(VALUES, st.integers(1, 25))
def test_no_value_is_split_and_no_bin_is_empty(counted: list[tuple[int, int]], most: int) -> None:
    values, frequencies, bins = bins_of(counted, most)
    assert len(bins.names) == min(most, len(values))
    assert all(a < b for a, b in pairwise(bins.most)) and (bins.least <= bins.most).all()
    of = bins.indices(values)
    assert (np.diff(of) >= 0).all()
    # Each value is in one bin, whose ends are values in it, and whose population is that of its values.
    for number in range(len(bins.most)):
        inside = of == number
        assert (values[inside].min(), values[inside].max()) == (bins.least[number], bins.most[number])
        assert frequencies[inside].sum() == bins.population[number]


@given(VALUES, st.integers(1, 25))
def test_transforms_that_keep_the_order_change_nothing(counted: list[tuple[int, int]], most: int) -> None:
    values, frequencies, bins = bins_of(counted, most)
    for transform in (np.exp2, np.arctan, lambda v: v**3 - 7):
        image = transform(values / 16)
        changed = make_bins("H", image, frequencies, most)
        assert (changed.indices(image) == bins.indices(values)).all()
        assert (changed.population == bins.population).all()


@given(VALUES.filter(lambda counted: len(counted) > 20), st.integers(2, 10))
def test_populations_are_spread(counted: list[tuple[int, int]], most: int) -> None:
    """A bin differs from the mean by no more than its neighbours' values would explain."""
    _, frequencies, bins = bins_of(counted, most)
    size = float(bin_size(frequencies, most))
    held = [np.minimum(frequencies[a:b], size).sum() for a, b in pairwise(cuts(frequencies, most))]
    assert np.abs(np.array(held) - size).mean() <= np.minimum(frequencies, size).max()
    # Of values that occur equally often, bins hold the same number, but for one.
    _, _, even = bins_of([(value, 3) for value, _ in counted], most)
    assert even.population.max() - even.population.min() <= 3 * (len(counted) % most > 0) + 3


def test_a_very_frequent_value_fills_one_bin() -> None:
    frequencies = as_array([1] * 30 + [1_000_000] + [1] * 30)
    assert bin_size(frequencies, 5) == 15
    bins = make_bins("H", np.arange(61.0), frequencies, 5)
    assert bins.least.tolist() == [0, 15, 30, 31, 46] and bins.most.tolist() == [14, 29, 30, 45, 60]


def test_values_that_were_never_seen() -> None:
    bins = make_bins("H", np.array([1.0, 2.0, 5.0, 8.0]), as_array([5, 5, 5, 5]), 2)
    assert bins.most.tolist() == [2.0, 8.0] and bins.names == ["H_1", "H_2"]
    # The first bin whose largest value is not below; beyond all, the last.
    assert bins.indices(np.array([-7.0, 1.5, 2.0, 2.5, 8.0, 99.0])).tolist() == [0, 0, 0, 1, 1, 1]


def test_many_values_are_spread_evenly() -> None:
    """As many as real features have: frequencies like Zipf's, sums near those of 99 million rules."""
    random = np.random.default_rng(1)
    frequencies = np.maximum(3_000_000 // (1 + random.permutation(30_000)), 1)
    cut = cuts(frequencies, 20)
    size = float(bin_size(frequencies, 20))
    held = np.add.reduceat(np.minimum(frequencies, size), cut[:-1])
    assert np.abs(held - size).mean() < 0.25 * size
    assert (cuts(frequencies, 20) == cut).all()
