"""Memory that is used again."""

from __future__ import annotations

import numpy as np

from mpitune.decoder.embedded.arena import Arena, aligned_empty


def test_arrays_are_apart_until_they_are_taken_back() -> None:
    arena = Arena()
    arrays = [arena.full(shape, i, np.int32) for i, shape in enumerate([3, (2, 5), 0, (4, 0), 1000])]
    assert [array.shape for array in arrays] == [(3,), (2, 5), (0,), (4, 0), (1000,)]
    assert all((array == i).all() for i, array in enumerate(arrays))
    arena.reset()
    again = arena.full(3, 7, np.int32)
    assert np.shares_memory(again, arrays[0]) and (arrays[0] == 7).all()


def test_the_latest_arrays_are_freed_alone() -> None:
    arena = Arena()
    first = arena.full(3, 1, np.int32)
    mark = arena.mark()
    second = arena.full(1 << 22, 2, np.int32)  # more than there is
    arena.release(mark)
    third = arena.full(3, 3, np.int32)
    assert (first == 1).all() and (second == 2).all() and (third == 3).all() and arena.mark() > mark
    arena.release(mark)
    assert np.shares_memory(arena.full(3, 4, np.int32), third)


def test_structured_arrays_begin_at_cache_lines() -> None:
    arena = Arena()
    dtype = np.dtype([("a", "<f8"), ("b", "<i4")])
    for array in (
        arena.empty(3, dtype),
        arena.empty((2, 3), dtype),
        aligned_empty(5, dtype),
        aligned_empty((2, 3), dtype),
    ):
        assert array.dtype == dtype
        assert array.ctypes.data % 64 == 0
    assert aligned_empty((2, 3), dtype).shape == (2, 3)


def test_more_than_there_is() -> None:
    arena = Arena()
    sizes = [1 << 22, 1 << 20]
    arrays = [arena.full(size, i, np.int32) for i, size in enumerate(sizes)]
    assert all((array == i).all() for i, array in enumerate(arrays))
    arena.reset()
    arrays = [arena.full(size, i, np.int32) for i, size in enumerate(sizes)]
    assert arrays[1].ctypes.data - arrays[0].ctypes.data == arrays[0].nbytes
