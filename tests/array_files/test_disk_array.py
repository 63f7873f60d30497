"""Arrays that wait on disk."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import numpy as np
import pytest
from support.small_disk import largest_file

from mpitune.array_files.arrays import open_arrays, write_arrays
from mpitune.array_files.disk_array import DiskArray, Scratch
from mpitune.errors import MachineError


def test_it_is_stored_as_the_array_would_be(tmp_path: Path) -> None:
    numbers, spool, empty = np.arange(100000, dtype=np.int32), DiskArray(tmp_path), DiskArray(tmp_path)
    for piece in (numbers[:10], numbers[:0], numbers[10:99999], numbers[99999:]):
        spool.append(piece)
    assert list(tmp_path.iterdir()) == []
    other = {"b": np.ones(3), "none": empty}
    write_arrays(tmp_path / "spool.npz", {"a": spool, **other}, {})
    write_arrays(tmp_path / "array.npz", {"a": numbers, **other}, {})
    assert (tmp_path / "spool.npz").read_bytes() == (tmp_path / "array.npz").read_bytes()
    assert np.array_equal(open_arrays(tmp_path / "spool.npz")["a"], numbers)


def test_a_matrix_of_another_type_and_distinct_elements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mpitune.array_files.disk_array._PIECE", 4)
    rows, lengths = DiskArray(tmp_path, np.int16, columns=2), DiskArray(tmp_path, np.int64)
    matrix = np.array([[3, 1], [2, 3], [1, 1]], dtype=np.int16)
    for piece in (matrix[:1], matrix[:0], matrix[1:].copy(order="F")):
        rows.append(piece)
        lengths.append(np.array([len(piece) + (1 << 40)]))
    assert (rows.shape, len(rows), rows.size, rows.nbytes) == ((3, 2), 3, 6, 12)
    assert (lengths.shape, len(lengths), lengths.nbytes) == ((3,), 3, 24)
    distinct = rows.distinct()
    assert (distinct.tolist(), distinct.dtype) == ([1, 2, 3], np.int16)
    assert DiskArray(tmp_path, np.int16).distinct().tolist() == []
    write_arrays(tmp_path / "stored.npz", {"rows": rows, "lengths": lengths}, {})
    stored = open_arrays(tmp_path / "stored.npz")
    assert np.array_equal(stored["rows"], matrix) and stored["rows"].dtype == np.int16
    assert stored["lengths"].tolist() == [1 + (1 << 40), 1 << 40, 2 + (1 << 40)]


def test_numbers_of_another_type_can_be_read_again(tmp_path: Path) -> None:
    spool = DiskArray(tmp_path, np.float64)
    assert spool.mapped().tolist() == []
    for piece in ([0.5, 1.5], [2.5]):
        spool.append(np.array(piece))
        assert spool.mapped()[-1] == piece[-1]
    assert (spool.mapped().tolist(), spool.nbytes) == ([0.5, 1.5, 2.5], 24)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="nowhere: cannot be written: No such file"):
        DiskArray(tmp_path / "nowhere")


def test_a_full_disk_is_a_machine_error(tmp_path: Path) -> None:
    spool = DiskArray(tmp_path)
    with pytest.raises(MachineError, match=rf"{tmp_path}: cannot be written: File too large"), largest_file(100000):
        spool.append(np.zeros(100000, dtype=np.int32))


def resident() -> int:
    """Bytes of files that are mapped into this process now."""
    return int(Path("/proc/self/statm").read_text().split()[2]) * mmap.PAGESIZE


def test_small_arrays_are_in_memory_and_large_ones_in_files(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path, 16 * 800)
    small, large, none = scratch.empty(100, np.int64), scratch.empty(101, np.int64), scratch.empty(0, np.int32)
    assert small.base is None and none.base is None
    assert isinstance(large.base, mmap.mmap)
    for array in (small, large):
        array[:] = np.arange(len(array))
    scratch.release()
    assert (small.tolist(), large.tolist()) == ([*range(100)], [*range(101)])
    assert (large.dtype, none.dtype, len(none)) == (np.int64, np.int32, 0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_pages_that_are_released_are_not_resident(tmp_path: Path) -> None:
    scratch, size = Scratch(tmp_path, 0), 1 << 24
    array = scratch.empty(size, np.uint8)
    before = resident()
    array[:] = 7
    assert resident() - before > size // 2
    scratch.release()
    assert resident() - before < size // 2
    assert array.min() == 7


def test_a_file_lasts_as_long_as_its_array(tmp_path: Path) -> None:
    def open_files() -> int:
        return len(os.listdir("/proc/self/fd"))

    scratch, before = Scratch(tmp_path, 0), open_files()
    array = scratch.empty(1000, np.int32)[1:].reshape(-1, 3)
    assert open_files() == before + 1
    array[:] = 1
    assert array.sum() == 999
    del array
    assert open_files() == before
    scratch.release()


def test_a_disk_without_room_is_told_before_the_array_is_used(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=f"{tmp_path}: cannot be written: "):
        Scratch(tmp_path, 0).empty(1 << 60, np.uint8)
    with pytest.raises(MachineError, match="nowhere: cannot be written: No such file"):
        Scratch(tmp_path / "nowhere", 0).empty(1, np.uint8)
