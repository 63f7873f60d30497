"""Distinct rows against a dict of tuples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpitune.array_files.row_table import DistinctRows, row_or_new

pytestmark = pytest.mark.kernel

# Few numbers, so that rows meet again; the largest and the smallest, because rows are also the bits of something else.
ROW = st.lists(st.sampled_from([0, 1, -1, 7, 2**31 - 1, -(2**31)]), max_size=4)


@settings(deadline=None)
@given(st.lists(st.lists(ROW, max_size=40), max_size=6))
def test_rows_are_numbered_as_they_come_up(batches: list[list[list[int]]]) -> None:
    distinct, expected = DistinctRows(), dict[tuple[int, ...], int]()
    for rows in batches:
        ptr = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        flat = np.array([number for row in rows for number in row], dtype=np.int32)
        numbers = distinct.add(ptr, flat)
        assert numbers.tolist() == [expected.setdefault(tuple(row), len(expected)) for row in rows]
    assert len(distinct) == len(expected)
    kept = [distinct.flat[a:b].tolist() for a, b in zip(distinct.ptr[:-1], distinct.ptr[1:], strict=True)]
    assert kept == [list(row) for row in expected]


def test_rows_of_a_matrix_are_numbered_by_first_occurrence() -> None:
    distinct = DistinctRows()
    assert distinct.add_matrix(np.array([[1, 2], [3, 4], [1, 2]], dtype=np.int32)).tolist() == [0, 1, 0]
    assert distinct.add_matrix(np.zeros((0, 2), dtype=np.int32)).tolist() == []
    scores = np.array([[0.5, -2.0], [0.5, 3.0]])
    assert distinct.add_matrix(scores.view(np.int32)).tolist() == [2, 3]


def test_many_rows_are_numbered_as_by_a_dict() -> None:
    rows = np.random.default_rng(1).integers(0, 60, size=(3000, 2), dtype=np.int32)
    distinct, expected = DistinctRows(), dict[tuple[int, ...], int]()
    numbers = np.concatenate([distinct.add_matrix(part) for part in np.array_split(rows, 7)])
    assert numbers.tolist() == [expected.setdefault(tuple(row), len(expected)) for row in rows.tolist()]


def test_words_are_looked_up_and_added_by_kernels() -> None:
    words = [b"w%d" % n for n in range(500)] + [b"", "\u00e4".encode(), b"aaaaaaaaa"]
    distinct = DistinctRows(np.uint8)
    for _ in range(2):
        numbers = []
        for word in words:
            text = np.frombuffer(bytearray(b"-%b-" % word), dtype=np.uint8)
            table = distinct.with_room(1, len(word))
            numbers.append(row_or_new(table, len(distinct), text, 1, 1 + len(word)))
            distinct.took(max(len(distinct), numbers[-1] + 1))
        assert numbers == list(range(len(words)))
    assert distinct.texts(np.arange(len(words))) == [word.decode() for word in words]
