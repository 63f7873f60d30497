"""A heap of scored numbers, for kernels: the highest score first, the lower number on a tie.

A 4-ary heap: half as high as a binary one, and the four children of a place are adjacent in memory, whose latency
limits its speed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.decoder.embedded.arena import Arena
from mpitune.jit import at, inlined, int64, kernel


class Heap(NamedTuple):
    """A heap of at most ``capacity`` numbers, and their scores."""

    size: np.ndarray
    """int64 [1]: number of entries."""
    score: np.ndarray
    """float64 [capacity]"""
    number: np.ndarray
    """int32 [capacity]"""


def new_heap(arena: Arena, capacity: int) -> Heap:
    """An empty heap with space for ``capacity`` numbers."""
    return Heap(
        np.zeros(1, dtype=np.int64), arena.empty(capacity, dtype=np.float64), arena.empty(capacity, dtype=np.int32)
    )


@inlined
def push(heap: Heap, score: float, number: int) -> None:
    """Insert ``number``; the heap must not be full."""
    place = heap.size[0]
    heap.size[0] = place + 1
    while place > 0:
        above = (place - 1) >> 2
        other = heap.score[at(above)]
        if other > score or (other == score and heap.number[at(above)] < number):
            break
        heap.score[at(place)] = other
        heap.number[at(place)] = heap.number[at(above)]
        place = above
    heap.score[at(place)] = score
    heap.number[at(place)] = number


@inlined
def pop(heap: Heap) -> int:
    """Remove the best number and return it; the heap must not be empty."""
    best = int64(heap.number[0])
    size = heap.size[0] - 1
    heap.size[0] = size
    score, number = heap.score[at(size)], heap.number[at(size)]
    place, below = int64(0), int64(1)
    while below < size:
        ties = True
        if below + 4 <= size:
            # No branches: the processor could not predict which of the four is the best.
            a, b = heap.score[at(below)], heap.score[at(below + 1)]
            c, d = heap.score[at(below + 2)], heap.score[at(below + 3)]
            ab, cd = max(a, b), max(c, d)
            child = below + (2 + int64(d > c) if cd > ab else int64(b > a))
            ties = (a == b) | (c == d) | (ab == cd)
        if ties:
            child = _best(heap, below, min(below + 4, size))
        other = heap.score[at(child)]
        if score > other or (score == other and number < heap.number[at(child)]):
            break
        heap.score[at(place)] = other
        heap.number[at(place)] = heap.number[at(child)]
        place, below = child, 4 * child + 1
    heap.score[at(place)] = score
    heap.number[at(place)] = number
    return best


@kernel
def _best(heap: Heap, begin: int, end: int) -> int:
    """The place of the best from place ``begin`` to ``end`` (exclusive)."""
    best = begin
    for i in range(begin + 1, end):
        score, other = heap.score[at(i)], heap.score[at(best)]
        if score > other or (score == other and heap.number[at(i)] < heap.number[at(best)]):
            best = i
    return best
