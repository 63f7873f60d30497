"""A k-best list's feature vectors, reduced to what can make two of its entries differ.

Most features of a list are the same in all of its entries. Such columns cancel out of every difference of two feature
vectors, so they are left out here, and with them the frozen ones, which no update may move, and zeros.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mpitune.decoder.base import KBest
from mpitune.jit import kernel


class FeatureColumns(NamedTuple):
    """The remaining values, by column and by row; rows are entries of the list."""

    slot: np.ndarray
    """int32 [columns]: slots of all free features that occur in the list, in order of appearance, constant ones too."""
    column_ptr: np.ndarray
    """int64 [columns + 1]: where the values of each column begin; a constant column has none."""
    row: np.ndarray
    """int32 [values]: ascending inside a column."""
    column_value: np.ndarray
    """float64 [values]: the values in the order of ``row``."""
    row_ptr: np.ndarray
    """int64 [k + 1]: where the values of each row begin."""
    column: np.ndarray
    """int32 [values]: columns of a row's values, in the order of their slots."""
    row_value: np.ndarray
    """float64 [values]: the values in the order of ``column``."""


class _Range(NamedTuple):
    """What is known of each column while the list is read."""

    low: np.ndarray
    """float64 [columns]: its smallest value."""
    high: np.ndarray
    """float64 [columns]: its largest value."""
    next: np.ndarray
    """int64 [columns]: where its next value goes."""


def only(kbest: KBest, entries: np.ndarray) -> KBest:
    """The ``entries`` (int64 [n]) of ``kbest``, in that order, without their words."""
    first, last = kbest.feature_ptr[entries], kbest.feature_ptr[entries + 1]
    none = np.zeros(0, dtype=np.int64)
    places = np.concatenate([none, *(np.arange(a, b) for a, b in zip(first.tolist(), last.tolist(), strict=True))])
    return KBest(
        np.zeros(len(entries) + 1, dtype=np.int64),
        np.zeros(0, dtype=np.int32),
        kbest.score[entries],
        np.concatenate([[0], np.cumsum(last - first)]),
        kbest.feature_index[places],
        kbest.feature_value[places],
    )


def columns_of(kbest: KBest, frozen: np.ndarray, place: np.ndarray) -> FeatureColumns:
    """The columns of ``kbest``.

    ``frozen``: bool [D], by slot. ``place``: int32 [D], all -1 before and after: space to look slots up in.
    """
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
    range_ = _Range(np.empty(width), np.empty(width), np.empty(width, dtype=np.int64))
    count = _read(kbest, frozen, place, range_, columns)
    return columns._replace(slot=columns.slot[:count], column_ptr=columns.column_ptr[: count + 1])


@kernel
def _read(kbest: KBest, frozen: np.ndarray, place: np.ndarray, range_: _Range, columns: FeatureColumns) -> int:
    """Fill ``columns``; returns how many there are."""
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
            range_.low[c] = value
            range_.high[c] = value
            count += 1
        else:
            range_.low[c] = min(range_.low[c], value)
            range_.high[c] = max(range_.high[c], value)
        columns.column_ptr[c + 1] += 1
    for c in range(count):
        constant = columns.column_ptr[c + 1] == k and range_.low[c] == range_.high[c]
        range_.next[c] = columns.column_ptr[c]
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
            columns.row[range_.next[c]] = j
            columns.column_value[range_.next[c]] = value
            range_.next[c] += 1
            columns.column[values] = c
            columns.row_value[values] = value
            values += 1
    columns.row_ptr[k] = values
    for c in range(count):
        place[columns.slot[c]] = -1
    return count


@kernel
def same_row(columns: FeatureColumns, a: int, b: int) -> bool:
    """Whether entries ``a`` and ``b`` have the same free features: their difference d is 0."""
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


@kernel
def model_scores(kbest: KBest, weights: np.ndarray, scores: np.ndarray) -> None:
    """Fill ``scores`` (float64 [k]) with w.x over all features, in the order of their slots."""
    for j in range(len(scores)):
        score = 0.0
        for e in range(kbest.feature_ptr[j], kbest.feature_ptr[j + 1]):
            score += weights[kbest.feature_index[e]] * kbest.feature_value[e]
        scores[j] = score
