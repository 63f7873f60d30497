"""The feature vectors of a k-best list, reduced to the values in which entries can differ.

Most features of a list have the same value in all of its entries. Such columns cancel in the difference of two feature
vectors, so they are left out here, as are frozen features, which no update changes, and zeros.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.array_files.csr import select_rows
from mpitune.decoder.base import KBest
from mpitune.jit import kernel
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


class _ColumnState(NamedTuple):
    """State of each column while the list is read."""

    low: np.ndarray
    """float64 [columns]: smallest value so far."""
    high: np.ndarray
    """float64 [columns]: largest value so far."""
    next: np.ndarray
    """int64 [columns]: position of the next value."""


def select_entries(kbest: KBest, entries: np.ndarray) -> KBest:
    """The list of these ``entries`` (int64 [n]) of ``kbest``, in that order, without words."""
    ptr, index = select_rows(kbest.feature_ptr, kbest.feature_index, entries)
    _, value = select_rows(kbest.feature_ptr, kbest.feature_value, entries)
    no_words = np.zeros(len(entries) + 1, dtype=np.int64), np.zeros(0, dtype=np.int32)
    return KBest(*no_words, kbest.score[entries], ptr, index, value)


def columns_of(kbest: KBest, weights: Weights) -> FeatureColumns:
    """The columns of ``kbest``, without the frozen features of ``weights``.

    Raises ValueError if ``kbest`` has features beyond the end of ``weights``.
    """
    if kbest.feature_index.max(initial=0) >= max(len(weights.value), 1):
        raise ValueError(f"feature slot {kbest.feature_index.max()}, but {len(weights.value)} weights")
    place = weights.array("place", -1, np.int32)
    values = len(kbest.feature_value)
    width = min(values, len(place))
    columns = FeatureColumns(
        np.empty(width, dtype=np.int32),
        np.zeros(width + 1, dtype=np.int64),
        np.empty(values, dtype=np.int32),
        np.empty(values),
        np.empty(kbest.size + 1, dtype=np.int64),
        np.empty(values, dtype=np.int32),
        np.empty(values),
    )
    state = _ColumnState(np.empty(width), np.empty(width), np.empty(width, dtype=np.int64))
    count = _fill_columns(kbest, weights.frozen, place, state, columns)
    return columns._replace(slot=columns.slot[:count], column_ptr=columns.column_ptr[: count + 1])


@kernel
def _fill_columns(
    kbest: KBest, frozen: np.ndarray, place: np.ndarray, state: _ColumnState, columns: FeatureColumns
) -> int:
    """`columns_of`: fill ``columns``; returns the number of columns.

    ``frozen``: bool [D]. ``place``: int32 [D], all -1 before and after: working space, from slot to column.
    """
    k = len(kbest.score)
    count = 0
    for e in range(kbest.feature_ptr[0], kbest.feature_ptr[k]):
        slot = kbest.feature_index[e]
        value = kbest.feature_value[e]
        if value == 0.0 or frozen[slot]:
            continue
        c = place[slot]
        if c < 0:
            c = count
            place[slot] = count
            columns.slot[count] = slot
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
        for e in range(kbest.feature_ptr[j], kbest.feature_ptr[j + 1]):
            slot = kbest.feature_index[e]
            value = kbest.feature_value[e]
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
