"""Uniform population binning: the values of a feature in bins that hold about as many of its occurrences each.

Clark, Dyer and Lavie, *Locally Non-Linear Learning for Statistical Machine Translation via Discretization and
Structured Regularization* (TACL 2014; CDL14), section 3.2. Only the order of the values counts, and how often each
occurs: a transform that keeps the order leaves the bins as they are.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from mpitune.jit import kernel


class Bins(NamedTuple):
    """The bins of one feature, its smallest values first."""

    feature: str
    least: np.ndarray
    """float64 [bins]: the smallest value in each bin."""
    most: np.ndarray
    """float64 [bins]: the largest one."""
    population: np.ndarray
    """int64 [bins]: how often its values occur."""

    @property
    def names(self) -> list[str]:
        """The features that the bins are: ``<feature>_1``, ``<feature>_2``, ..."""
        return [f"{self.feature}_{number}" for number in range(1, len(self.most) + 1)]

    def indices(self, values: np.ndarray) -> np.ndarray:
        """int64 [n]: the bins of ``values`` (float64 [n]), from 0: the first whose largest value is not below.

        What is larger than all belongs to the last one.
        """
        return np.minimum(np.searchsorted(self.most, values), len(self.most) - 1)


def make_bins(feature: str, values: np.ndarray, frequencies: np.ndarray, most: int) -> Bins:
    """At most ``most`` bins for the distinct ``values`` (float64 [n], ascending) of ``feature``.

    ``frequencies``: int64 [n], how often each occurs: once or more.
    """
    cut = cuts(frequencies, most)
    population = np.add.reduceat(frequencies, cut[:-1])
    return Bins(feature, values[cut[:-1]], values[cut[1:] - 1], population)


def cuts(frequencies: np.ndarray, bins: int) -> np.ndarray:
    """int64 [b + 1]: bin j holds the values from ``cuts[j]`` to ``cuts[j + 1]``, excluded; no bin is empty.

    Where there are no more values than ``bins``, each has its own. Else there are that many bins, and the sum of
    |b_j - u| over them is the smallest there is, b_j being what bin j holds of the frequencies, each cut down to the
    size u of a bin (`bin_size`). Among equally good ones the last cut lies as far to the left as it can, then the one
    before it, and so on. Exact: all is counted in whole numbers. ``frequencies``: int64 [n], n >= 1, those of the
    values in ascending order.
    """
    n = len(frequencies)
    if n <= bins:
        return np.arange(n + 1)
    size = bin_size(frequencies, bins)
    held = np.minimum(frequencies * size.denominator, size.numerator)
    before = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(held)])
    begin = np.zeros((bins + 1, n + 1), dtype=np.int32)
    _best_begins(before, size.numerator, np.empty((2, n + 1), dtype=np.int64), begin)
    cut = np.empty(bins + 1, dtype=np.int64)
    cut[bins] = n
    for j in range(bins, 0, -1):
        cut[j - 1] = begin[j, cut[j]]
    return cut


def bin_size(frequencies: np.ndarray, bins: int) -> Fraction:
    """u: what a bin is to hold, where a value that occurs very often fills one bin and no more.

    CDL14 repeats: u is the mean, over the bins *(ours: the paper's equation divides by the number of values)*, of the
    frequencies; those above u are cut down to it. This is where that leads to: the u that is the mean of
    min(f_i, u). ``frequencies``: int64 [n], n > ``bins``.
    """
    falling = np.sort(frequencies)[::-1]
    rest = int(falling.sum())
    # With the k largest cut down to u: bins * u = k * u + what the rest add up to.
    for k in range(bins):
        size = Fraction(rest, bins - k)
        if falling[k] <= size:
            break
        rest -= int(falling[k])
    return size


@kernel
def _best_begins(before: np.ndarray, size: int, cost: np.ndarray, begin: np.ndarray) -> None:
    """Dynamic programming over the number of bins: of the best j that end at i, the last begins at ``begin[j, i]``.

    ``before``: int64 [n + 1], what the values before i hold; ``cost``: int64 [2, n + 1], space; ``begin``: int32
    [bins + 1, n + 1], filled where i >= j.

    |before[i] - before[k] - size| is convex in the difference, so the best k (of equals the first) never falls as i
    grows: between two ends whose k is known, only what lies between these has to be looked at. Ends are taken at a
    coarse distance first, then halfway between those: about n log n steps for each j.
    """
    n = len(before) - 1
    for i in range(1, n + 1):
        cost[1, i] = abs(before[i] - size)
    for j in range(2, len(begin)):
        old, new = cost[(j - 1) % 2], cost[j % 2]
        ends = n - j + 1
        distance = 1
        while 2 * distance <= ends:
            distance *= 2
        while distance > 0:
            for place in range(distance, ends + 1, 2 * distance):
                i = j - 1 + place
                first, last = j - 1, i - 1
                if place > distance:
                    first = begin[j, i - distance]
                if place + distance <= ends:
                    last = min(last, begin[j, i + distance])
                best, least = first, old[first] + abs(before[i] - before[first] - size)
                for k in range(first + 1, last + 1):
                    found = old[k] + abs(before[i] - before[k] - size)
                    if found < least:
                        best, least = k, found
                new[i] = least
                begin[j, i] = best
            distance //= 2
