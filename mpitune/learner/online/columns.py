"""The feature vectors of a k-best list, reduced to the values in which entries can differ.

Most features of a list have the same value in all of its entries. Such columns cancel in the difference of two feature
vectors, so they are left out here, as are frozen features, which no update changes, and zeros.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.decoder.base import KBest
from mpitune.jit import kernel
from mpitune.learner.base import FeatureRows
from mpitune.learner.weights import Weights


class FeatureColumns(NamedTuple):
    """The remaining values by column and by row; row j is entry j of the list."""

    slot: np.ndarray
    """int32 [columns]: slots of all free features of the list, in order of appearance, constant ones included."""
    column_ptr: np.ndarray
    """int64 [columns + 1]: start of each column's values; a constant column has none."""
    row: np.ndarray
    """int32 [values]: ascending inside a column."""
    column_value: np.ndarray
    """float64 [values]: the values in the order of ``row``."""
    row_ptr: np.ndarray
    """int64 [k + 1]: start of each row's values."""
    column: np.ndarray
    """int32 [values]: columns of a row's values, in the order of their slots."""
    row_value: np.ndarray
    """float64 [values]: the values in the order of ``column``."""


class ColumnState(NamedTuple):
    """State of each column while the list is read."""

    low: np.ndarray
    """float64 [columns]: smallest value so far."""
    high: np.ndarray
    """float64 [columns]: largest value so far."""
    next: np.ndarray
    """int64 [columns]: position of the next value."""


def columns_of(kbest: KBest, weights: Weights, entries: np.ndarray | None = None) -> FeatureColumns:
    """The columns of ``entries`` of ``kbest`` (int64 [n], in this order; None: all), without the frozen features.

    Raises ValueError if ``kbest`` has features beyond the end of ``weights``.
    """
    check_slots(kbest, weights)
    entries = np.arange(kbest.size) if entries is None else entries
    place, rows = weights.array("place", -1, np.int32), rows_of(kbest)
    values = int(np.diff(rows.ptr)[entries].sum())
    state, columns = workspace(len(entries), values, min(values, len(place)))
    count = fill_columns(rows, entries, weights.frozen, place, state, columns)
    return columns._replace(slot=columns.slot[:count], column_ptr=columns.column_ptr[: count + 1])


def check_slots(kbest: KBest, weights: Weights) -> None:
    """Raise ValueError if ``kbest`` has features beyond the end of ``weights``."""
    if kbest.feature_index.max(initial=0) >= max(len(weights.value), 1):
        raise ValueError(f"feature slot {kbest.feature_index.max()}, but {len(weights.value)} weights")


def rows_of(kbest: KBest) -> FeatureRows:
    """The feature vectors of ``kbest``."""
    return FeatureRows(kbest.feature_ptr, kbest.feature_index, kbest.feature_value)


def workspace(rows: int, values: int, columns: int) -> tuple[ColumnState, FeatureColumns]:
    """Arrays for `fill_columns`, for so many rows, values and columns at most."""
    return ColumnState(np.empty(columns), np.empty(columns), np.empty(columns, dtype=np.int64)), FeatureColumns(
        np.empty(columns, dtype=np.int32),
        np.empty(columns + 1, dtype=np.int64),
        np.empty(values, dtype=np.int32),
        np.empty(values),
        np.empty(rows + 1, dtype=np.int64),
        np.empty(values, dtype=np.int32),
        np.empty(values),
    )


@kernel
def fill_columns(
    rows: FeatureRows,
    entries: np.ndarray,
    frozen: np.ndarray,
    place: np.ndarray,
    state: ColumnState,
    columns: FeatureColumns,
) -> int:
    """`columns_of`: fill ``columns`` with ``entries`` (int64 [k]) of ``rows``; returns the number of columns.

    ``frozen``: bool [D]. ``place``: int32 [D], all -1 before and after: working space, from slot to column.
    """
    k = len(entries)
    count = 0
    columns.column_ptr[0] = 0
    for j in range(k):
        for e in range(rows.ptr[entries[j]], rows.ptr[entries[j] + 1]):
            slot = rows.slot[e]
            value = rows.value[e]
            if value == 0.0 or frozen[slot]:
                continue
            c = place[slot]
            if c < 0:
                c = count
                place[slot] = count
                columns.slot[count] = slot
                columns.column_ptr[count + 1] = 0
                state.low[c] = value
                state.high[c] = value
                count += 1
            else:
                state.low[c] = min(state.low[c], value)
                state.high[c] = max(state.high[c], value)
            columns.column_ptr[c + 1] += 1
    for c in range(count):
        constant = columns.column_ptr[c + 1] == k and state.low[c] == state.high[c]
        state.next[c] = columns.column_ptr[c]
        columns.column_ptr[c + 1] = columns.column_ptr[c] + (0 if constant else columns.column_ptr[c + 1])
    values = 0
    for j in range(k):
        columns.row_ptr[j] = values
        for e in range(rows.ptr[entries[j]], rows.ptr[entries[j] + 1]):
            slot = rows.slot[e]
            value = rows.value[e]
            if value == 0.0 or frozen[slot]:
                continue
            c = place[slot]
            if columns.column_ptr[c] == columns.column_ptr[c + 1]:
                continue
            columns.row[state.next[c]] = j
            columns.column_value[state.next[c]] = value
            state.next[c] += 1
            columns.column[values] = c
            columns.row_value[values] = value
            values += 1
    columns.row_ptr[k] = values
    for c in range(count):
        place[columns.slot[c]] = -1
    return count


@kernel
def same_row(columns: FeatureColumns, a: int, b: int) -> bool:
    """True if entries ``a`` and ``b`` have the same free features, so that their difference d is 0."""
    start, other = columns.row_ptr[a], columns.row_ptr[b]
    length = columns.row_ptr[a + 1] - start
    if columns.row_ptr[b + 1] - other != length:
        return False
    for i in range(length):
        if columns.column[start + i] != columns.column[other + i]:
            return False
        if columns.row_value[start + i] != columns.row_value[other + i]:
            return False
    return True
