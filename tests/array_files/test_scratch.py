"""Arrays in memory and in files without a name."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import numpy as np
import pytest

from mpitune.array_files.scratch import Scratch
from mpitune.errors import MachineError


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
