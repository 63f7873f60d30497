"""Uniform population binning: split the values of a feature into bins with about equal numbers of occurrences.

Clark, Dyer and Lavie, "Locally Non-Linear Learning for Statistical Machine Translation via Discretization and
Structured Regularization" (TACL 2014), section 3.2. The bins depend on the order and the frequencies of the values
only, so order-preserving transforms do not change them.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from mpitune.jit import kernel


class Bins(NamedTuple):
    """The bins of one feature, in ascending order of values."""

    feature: str
    least: np.ndarray
    """float64 [bins]: the smallest value in each bin."""
    most: np.ndarray
    """float64 [bins]: the largest value in each bin."""
    population: np.ndarray
    """int64 [bins]: number of occurrences of its values."""

    @property
    def names(self) -> list[str]:
        """Names of the indicator features: ``<feature>_1``, ``<feature>_2``, ..."""
        return [f"{self.feature}_{number}" for number in range(1, len(self.most) + 1)]

    def indices(self, values: np.ndarray) -> np.ndarray:
        """int64 [n]: the bin of each of ``values`` (float64 [n]), from 0: the first with a largest value >= the value.

        Values above all bins belong to the last bin.
        """
        return np.minimum(np.searchsorted(self.most, values), len(self.most) - 1)


def make_bins(feature: str, values: np.ndarray, frequencies: np.ndarray, max_bins: int) -> Bins:
    """Make at most ``max_bins`` bins for the distinct ``values`` (float64 [n], ascending) of ``feature``.

    ``frequencies``: int64 [n], the number of occurrences of each value, at least 1.
    """
    cut = cuts(frequencies, max_bins)
    population = np.add.reduceat(frequencies, cut[:-1])
    return Bins(feature, values[cut[:-1]], values[cut[1:] - 1], population)


def cuts(frequencies: np.ndarray, bins: int) -> np.ndarray:
    """int64 [b + 1]: bin j holds values ``cuts[j]`` to ``cuts[j + 1]`` - 1; no bin is empty.

    If there are at most ``bins`` values, each has its own bin. Otherwise there are ``bins`` bins, and they minimise the
    sum of |b_j - u|, where b_j is the sum of the frequencies in bin j, each clipped to the bin size u (`bin_size`).
    Ties: the leftmost last cut, then the leftmost cut before it, and so on. The computation is exact, in integers.
    ``frequencies``: int64 [n], n >= 1, in ascending order of the values.
    """
    n = len(frequencies)
    if n <= bins:
        return np.arange(n + 1)
    size = bin_size(frequencies, bins)
    clipped = np.minimum(frequencies * size.denominator, size.numerator)
    cumulated = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(clipped)])
    begin = np.zeros((bins + 1, n + 1), dtype=np.int32)
    _best_begins(cumulated, size.numerator, np.empty((2, n + 1), dtype=np.int64), begin)
    cut = np.empty(bins + 1, dtype=np.int64)
    cut[bins] = n
    for j in range(bins, 0, -1):
        cut[j - 1] = begin[j, cut[j]]
    return cut


def bin_size(frequencies: np.ndarray, bins: int) -> Fraction:
    """Target size u of a bin: the solution of u = sum_i min(f_i, u) / ``bins``.

    A very frequent value therefore fills one bin and no more. The paper iterates: u is the mean of the frequencies, and
    frequencies above u are clipped to u; this is the fixed point. The mean is taken over bins (a choice of this
    implementation: the paper's equation divides by the number of values). ``frequencies``: int64 [n], n > ``bins``.
    """
    descending = np.sort(frequencies)[::-1]
    rest = int(descending.sum())
    # With the k largest clipped to u: bins * u = k * u + the sum of the rest.
    for k in range(bins):
        size = Fraction(rest, bins - k)
        if descending[k] <= size:
            break
        rest -= int(descending[k])
    return size


@kernel
def _best_begins(cumulated: np.ndarray, size: int, cost: np.ndarray, begin: np.ndarray) -> None:
    """Dynamic programming over the number of bins: ``begin[j, i]`` is the begin of the last of the best j bins up to i.

    ``cumulated``: int64 [n + 1], cumulated clipped frequencies; ``cost``: int64 [2, n + 1], scratch space; ``begin``:
    int32 [bins + 1, n + 1], filled for i >= j.

    |cumulated[i] - cumulated[k] - size| is convex in the difference, so the best k (the first of equals) never
    decreases as i grows, and the search between two ends is limited to the range between their best k. Ends are visited
    at a coarse distance first, then halfway between those: about n log n steps for each j.
    """
    n = len(cumulated) - 1
    for i in range(1, n + 1):
        cost[1, i] = abs(cumulated[i] - size)
    for j in range(2, len(begin)):
        old, new = cost[(j - 1) % 2], cost[j % 2]
        ends = n - j + 1
        distance = 1
        while 2 * distance <= ends:
            distance *= 2
        while distance > 0:
            for offset in range(distance, ends + 1, 2 * distance):
                i = j - 1 + offset
                first, last = j - 1, i - 1
                if offset > distance:
                    first = begin[j, i - distance]
                if offset + distance <= ends:
                    last = min(last, begin[j, i + distance])
                best, lowest = first, old[first] + abs(cumulated[i] - cumulated[first] - size)
                for k in range(first + 1, last + 1):
                    candidate = old[k] + abs(cumulated[i] - cumulated[k] - size)
                    if candidate < lowest:
                        best, lowest = k, candidate
                new[i] = lowest
                begin[j, i] = best
            distance //= 2
