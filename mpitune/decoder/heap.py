"""A binary heap of scored numbers, for kernels: the highest score first, the lower number on a tie."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.kernel import at, int64, kernel


class Heap(NamedTuple):
    """A heap and the space that it has."""

    size: np.ndarray
    """int64 [1]"""
    score: np.ndarray
    """float64 [capacity]"""
    number: np.ndarray
    """int32 [capacity]"""


def new_heap(capacity: int) -> Heap:
    """An empty heap with space for ``capacity`` numbers."""
    return Heap(np.zeros(1, dtype=np.int64), np.empty(capacity, dtype=np.float64), np.empty(capacity, dtype=np.int32))


@kernel
def push(heap: Heap, score: float, number: int) -> None:
    """Put in ``number``; there must be space."""
    place = heap.size[0]
    heap.size[0] = place + 1
    while place > 0:
        above = (place - 1) >> 1
        other = heap.score[at(above)]
        if other > score or (other == score and heap.number[at(above)] < number):
            break
        heap.score[at(place)] = other
        heap.number[at(place)] = heap.number[at(above)]
        place = above
    heap.score[at(place)] = score
    heap.number[at(place)] = number


@kernel
def pop(heap: Heap) -> int:
    """Take out the best; the heap must not be empty."""
    best = int64(heap.number[0])
    size = heap.size[0] - 1
    heap.size[0] = size
    score, number = heap.score[at(size)], heap.number[at(size)]
    place = 0
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        right = min(below + 1, size - 1)
        # No branch: which child is better cannot be predicted.
        a, b = heap.score[at(below)], heap.score[at(right)]
        below += int64(b > a) | (int64(b == a) & int64(heap.number[at(right)] < heap.number[at(below)]))
        other = heap.score[at(below)]
        if score > other or (score == other and number < heap.number[at(below)]):
            break
        heap.score[at(place)] = other
        heap.number[at(place)] = heap.number[at(below)]
        place = below
    heap.score[at(place)] = score
    heap.number[at(place)] = number
    return best
