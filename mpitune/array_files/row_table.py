"""Distinct rows of numbers, such as words as bytes: a hash table that takes a tenth of the memory and time of a dict.

Kernels look rows up, and add them, without making objects of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mpitune.jit import at, inlined, int64, kernel


class RowTable(NamedTuple):
    """The rows (CSR), and a hash table of them; with room for more."""

    flat: np.ndarray
    """Whole numbers: row i is ``flat[ptr[i]:ptr[i + 1]]``."""
    ptr: np.ndarray
    """int64 [rows + 1 or more]"""
    slot: np.ndarray
    """int32 [more than rows]: open-addressed hash table (linear probing) of 1 + number of a row; 0 is an empty slot."""


class DistinctRows:
    """Distinct rows, numbered in the order in which they are first added."""

    def __init__(self, dtype: npt.DTypeLike = np.int32) -> None:
        self._size = 0
        self.table = RowTable(np.zeros(1, dtype=dtype), np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int32))
        """For kernels. Replaced when rows are added."""

    def add(self, ptr: np.ndarray, flat: np.ndarray) -> np.ndarray:
        """int32 [rows]: the numbers of the rows ``flat[ptr[i]:ptr[i + 1]]``; new rows are added.

        ``ptr``: int64 [rows + 1]; ``flat``: of the table's type.
        """
        numbers = np.empty(len(ptr) - 1, dtype=np.int32)
        table = self.with_room(len(numbers), len(flat))
        self._size = int(_add(table, self._size, np.ascontiguousarray(ptr), np.ascontiguousarray(flat), numbers))
        return numbers

    def add_matrix(self, rows: np.ndarray) -> np.ndarray:
        """`add` for the rows of a matrix."""
        return self.add(np.arange(len(rows) + 1, dtype=np.int64) * rows.shape[1], rows.ravel())

    def __len__(self) -> int:
        return self._size

    @property
    def ptr(self) -> np.ndarray:
        """int64 [rows + 1]: row i is ``flat[ptr[i]:ptr[i + 1]]``."""
        return self.table.ptr[: self._size + 1]

    @property
    def flat(self) -> np.ndarray:
        """The numbers of all rows."""
        return self.table.flat[: self.ptr[-1]]

    def texts(self, numbers: np.ndarray) -> list[str]:
        """The rows with these ``numbers`` (int [n]), which are words as bytes."""
        text, ends = self.table.flat.data, zip(self.ptr[numbers].tolist(), self.ptr[numbers + 1].tolist(), strict=True)
        return [str(text[begin:end], "utf-8") for begin, end in ends]

    def with_room(self, rows: int, size: int) -> RowTable:
        """The table, with room for as many further ``rows``, of ``size`` numbers together, as `row_or_new` may add."""
        most, end = self._size + rows, int(self.table.ptr[self._size]) + size
        table = self.table._replace(flat=enlarged(self.table.flat, end), ptr=enlarged(self.table.ptr, most + 1))
        if 2 * most > len(table.slot):
            table = table._replace(slot=np.zeros(4 * most, dtype=np.int32))
            fill_slots(table, self._size)
        self.table = table
        return table

    def took(self, rows: int) -> None:
        """`row_or_new` has made the table one of so many ``rows``."""
        self._size = rows


def enlarged(array: np.ndarray, size: int) -> np.ndarray:
    """``array``, or if it is shorter than ``size``, a copy half as long again as ``size``."""
    if len(array) >= size:
        return array
    grown = np.empty(size + size // 2, dtype=array.dtype)
    grown[: len(array)] = array
    return grown


@kernel
def row_slot(table: RowTable, flat: np.ndarray, begin: int, end: int) -> int:
    """The slot of the row ``flat[begin:end]`` in ``table``, or the empty slot for it."""
    hashed = 2166136261
    for k in range(begin, end):
        hashed = ((hashed ^ int(flat[at(k)])) * 16777619) & 0xFFFFFFFF
    size = len(table.slot)
    i = hashed * size >> 32
    while table.slot[at(i)] != 0:
        row = table.slot[at(i)] - 1
        start = table.ptr[at(row)]
        if table.ptr[at(row + 1)] - start == end - begin:
            k = 0
            while k < end - begin and table.flat[at(start + k)] == flat[at(begin + k)]:
                k += 1
            if k == end - begin:
                break
        i += 1
        if i == size:
            i = 0
    return i


@inlined
def add_row(table: RowTable, row: int, slot: int, flat: np.ndarray, begin: int, end: int) -> None:
    """Enter ``flat[begin:end]``, which is new, as the next ``row``, in its ``slot``; the table has room."""
    start = table.ptr[row]
    for k in range(end - begin):
        table.flat[start + k] = flat[begin + k]
    table.ptr[row + 1] = start + end - begin
    table.slot[slot] = row + 1


@kernel
def row_or_new(table: RowTable, rows: int, flat: np.ndarray, begin: int, end: int) -> int:
    """The number of the row ``flat[begin:end]`` in a table of so many ``rows``; a new one is added as the next, for
    which the table has room."""
    slot = row_slot(table, flat, begin, end)
    if table.slot[slot] == 0:
        add_row(table, rows, slot, flat, begin, end)
    return int64(table.slot[slot]) - 1


@kernel
def fill_slots(table: RowTable, rows: int) -> None:
    """Enter the first ``rows`` in the hash table, which is empty."""
    for row in range(rows):
        table.slot[row_slot(table, table.flat, table.ptr[row], table.ptr[row + 1])] = row + 1


@kernel
def _add(table: RowTable, rows: int, ptr: np.ndarray, flat: np.ndarray, numbers: np.ndarray) -> int:
    """Fill ``numbers`` with those of the rows of ``ptr`` and ``flat``, of which new ones are added to so many ``rows``.

    Returns the number of rows with them.
    """
    for i in range(len(numbers)):
        number = row_or_new(table, rows, flat, ptr[i], ptr[i + 1])
        rows = max(rows, number + 1)
        numbers[i] = number
    return rows
