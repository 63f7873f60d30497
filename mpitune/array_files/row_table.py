"""Rows of numbers, each kept once: what a dict of tuples would do, in a tenth of its memory and time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.jit import int64, kernel, uint64

_ROWS, _ELEMENTS = range(2)


class _Table(NamedTuple):
    """A hash table with open addressing over the rows."""

    size: np.ndarray
    """int64 [2]: rows and elements so far."""
    ptr: np.ndarray
    """int64 [room for rows + 1]"""
    flat: np.ndarray
    """int32 [room for elements]"""
    slot: np.ndarray
    """int32 [a power of 2]: the row of each slot, or -1."""


class DistinctRows:
    """Distinct rows of int32, numbered in the order in which they come up."""

    def __init__(self) -> None:
        self._table = _Table(
            size=np.zeros(2, dtype=np.int64),
            ptr=np.zeros(2, dtype=np.int64),
            flat=np.zeros(1, dtype=np.int32),
            slot=np.full(2, -1, dtype=np.int32),
        )

    def add(self, ptr: np.ndarray, flat: np.ndarray) -> np.ndarray:
        """int32 [rows]: the numbers of the rows ``flat[ptr[i]:ptr[i + 1]]`` (int64 and int32), the new ones added."""
        self._make_room(len(ptr) - 1, len(flat))
        numbers = np.empty(len(ptr) - 1, dtype=np.int32)
        _add(self._table, np.ascontiguousarray(ptr), np.ascontiguousarray(flat), numbers)
        return numbers

    def add_matrix(self, rows: np.ndarray) -> np.ndarray:
        """`add` for the rows of an int32 matrix."""
        return self.add(np.arange(len(rows) + 1, dtype=np.int64) * rows.shape[1], rows.ravel())

    def __len__(self) -> int:
        return int(self._table.size[_ROWS])

    @property
    def ptr(self) -> np.ndarray:
        """int64 [rows + 1]: row i is ``flat[ptr[i]:ptr[i + 1]]``."""
        return self._table.ptr[: len(self) + 1]

    @property
    def flat(self) -> np.ndarray:
        """int32"""
        return self._table.flat[: self._table.size[_ELEMENTS]]

    def _make_room(self, rows: int, elements: int) -> None:
        """For so many more, whether they turn out to be new or not."""
        table = self._table
        rows, elements = (table.size + (rows, elements)).tolist()
        table = table._replace(ptr=_grown(table.ptr, rows + 1), flat=_grown(table.flat, elements))
        if len(table.slot) < 2 * rows:
            table = table._replace(slot=np.full(2 ** (4 * rows - 1).bit_length(), -1, dtype=np.int32))
            _fill_slots(table)
        self._table = table


def _grown(array: np.ndarray, size: int) -> np.ndarray:
    if len(array) >= size:
        return array
    grown = np.empty(size + size // 2, dtype=array.dtype)
    grown[: len(array)] = array
    return grown


@kernel
def _add(table: _Table, ptr: np.ndarray, flat: np.ndarray, numbers: np.ndarray) -> None:
    for i in range(len(numbers)):
        first, last = ptr[i], ptr[i + 1]
        slot = _find(table, flat, first, last)
        if table.slot[slot] < 0:
            row, end = table.size[0], table.size[1]
            for k in range(first, last):
                table.flat[end] = flat[k]
                end += 1
            table.ptr[row + 1] = end
            table.slot[slot] = row
            table.size[0], table.size[1] = row + 1, end
        numbers[i] = table.slot[slot]


@kernel
def _fill_slots(table: _Table) -> None:
    for row in range(table.size[0]):
        table.slot[_find(table, table.flat, table.ptr[row], table.ptr[row + 1])] = row


@kernel
def _find(table: _Table, flat: np.ndarray, first: int, last: int) -> int:
    """The slot of the row ``flat[first:last]``: that which it has, or else that which it is to get."""
    value = uint64(last - first)
    for k in range(first, last):
        value = (value ^ uint64(flat[k])) * uint64(0x9E3779B97F4A7C15)
        value ^= value >> uint64(29)
    mask = uint64(len(table.slot) - 1)
    slot = value & mask
    while True:
        row = table.slot[slot]
        if row < 0 or _same(table, row, flat, first, last):
            return int64(slot)
        slot = (slot + uint64(1)) & mask


@kernel
def _same(table: _Table, row: int, flat: np.ndarray, first: int, last: int) -> bool:
    begin, length = table.ptr[row], last - first
    if table.ptr[row + 1] - begin != length:
        return False
    k = 0
    while k < length and table.flat[begin + k] == flat[first + k]:
        k += 1
    return bool(k == length)
