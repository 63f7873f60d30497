"""Distinct 64-bit numbers, such as ids: a hash table that takes a tenth of the memory of a dict, and kernels read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.array_files.row_table import enlarged
from mpitune.jit import inlined, int64, kernel, uint64


class NumberTable(NamedTuple):
    """The numbers, and a hash table of them with open addressing."""

    number: np.ndarray
    """uint64 [at least as many as were added]"""
    slot: np.ndarray
    """int32 [a power of 2]: the place in ``number`` of what is in each slot, or -1."""


class DistinctNumbers:
    """Distinct numbers (uint64) in the order in which they are first added."""

    def __init__(self) -> None:
        self.table = NumberTable(np.zeros(1, dtype=np.uint64), np.full(2, -1, dtype=np.int32))
        """For `place_of`. Replaced when numbers are added."""
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def numbers(self) -> np.ndarray:
        """uint64 [n]: a view."""
        return self.table.number[: self._size]

    def add(self, numbers: np.ndarray) -> np.ndarray:
        """int64 [n]: the places of ``numbers`` (uint64 [n]); new numbers are added."""
        most = self._size + len(numbers)
        table = self.table._replace(number=enlarged(self.table.number, most))
        if 3 * len(table.slot) < 4 * most:
            table = table._replace(slot=np.full(2 ** (2 * most - 1).bit_length(), -1, dtype=np.int32))
            _fill_slots(table, self._size)
        self.table = table
        places = np.empty(len(numbers), dtype=np.int64)
        self._size = int(_add(table, self._size, np.ascontiguousarray(numbers, dtype=np.uint64), places))
        return places

    def find(self, numbers: np.ndarray) -> np.ndarray:
        """int64 [n]: the places of ``numbers`` (uint64 [n]), -1 where one was never added."""
        places = np.empty(len(numbers), dtype=np.int64)
        _find(self.table, np.ascontiguousarray(numbers, dtype=np.uint64), places)
        return places


@inlined
def _slot_of(table: NumberTable, number: int) -> int:
    """The slot of ``number`` (uint64), or the empty slot for it."""
    mask = uint64(len(table.slot) - 1)
    hash_ = number * uint64(0x9E3779B97F4A7C15)
    slot = (hash_ ^ (hash_ >> uint64(32))) & mask
    while table.slot[slot] >= 0 and table.number[table.slot[slot]] != number:
        slot = (slot + uint64(1)) & mask
    return slot


@inlined
def place_of(table: NumberTable, number: int) -> int:
    """The place of ``number`` (uint64) in the table, or -1."""
    return int64(table.slot[_slot_of(table, number)])


@kernel
def _add(table: NumberTable, size: int, numbers: np.ndarray, places: np.ndarray) -> int:
    """Fill ``places`` with those of ``numbers``, of which new ones are added; returns the new size."""
    for i in range(len(numbers)):
        slot = _slot_of(table, numbers[i])
        if table.slot[slot] < 0:
            table.number[size] = numbers[i]
            table.slot[slot] = size
            size += 1
        places[i] = table.slot[slot]
    return size


@kernel
def _find(table: NumberTable, numbers: np.ndarray, places: np.ndarray) -> None:
    for i in range(len(numbers)):
        places[i] = place_of(table, numbers[i])


@kernel
def _fill_slots(table: NumberTable, size: int) -> None:
    for place in range(size):
        table.slot[_slot_of(table, table.number[place])] = place
