"""Uniform population binning as CDL14 writes it, by trying all cuts, in exact fractions: for few values only."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, pairwise

TOLERANCE = Fraction(1, 10**9)


def bin_size(frequencies: Sequence[int], bins: int) -> Fraction:
    """Where the paper's iteration ends, but for a billionth or so."""
    cut_down = [Fraction(f) for f in frequencies]
    while True:
        # Fractions would grow without end.
        size = (sum(cut_down) / bins).limit_denominator(10**15)
        if max(cut_down) <= size * (1 + TOLERANCE):
            return size
        cut_down = [min(f, size) for f in cut_down]


def cost(frequencies: Sequence[int], size: Fraction, cut: Sequence[int]) -> Fraction:
    """The mean distance of bins from that size."""
    held = [sum(min(Fraction(f), size) for f in frequencies[a:b]) for a, b in pairwise(cut)]
    return sum((abs(h - size) for h in held), Fraction(0)) / len(held)


def all_cuts(values: int, bins: int) -> list[tuple[int, ...]]:
    """Every way to cut so many values into bins that are not empty; first those whose last cut lies farthest left."""
    inner = combinations(range(1, values), bins - 1)
    return sorted(((0, *cut, values) for cut in inner), key=lambda cut: cut[::-1])
