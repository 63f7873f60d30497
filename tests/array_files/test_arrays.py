"""Array files: what is written comes back, whole or not at all."""

from __future__ import annotations

import errno
import mmap
import os
from pathlib import Path

import h5py
import numpy as np
import pytest
from support.crafted import CRAFTED, Craft, write_secret

from mpitune.array_files import arrays
from mpitune.array_files.arrays import (
    USER_BLOCK,
    open_arrays,
    read_attributes,
    release_changes,
    release_pages,
    write_arrays,
    write_user_block,
)
from mpitune.errors import DataError, MachineError, UsageError

RECORD = np.dtype([("key", "<i8"), ("prob", "<f4"), ("backoff", "<f4")])
ARRAYS = {
    "a": np.arange(1000, dtype=np.int32),
    "a.b": np.arange(12, dtype=np.int16).reshape(6, 2)[::2],
    "none": np.zeros(0, dtype=np.uint64),
    "no rows": np.zeros((0, 2), dtype=np.int16),
    "records": np.array([(1, 2.0, 3.0), (-4, 5.0, -6.0)], dtype=RECORD),
    "text": np.frombuffer("größe".encode(), dtype=np.uint8),
}


def test_arrays_come_back(tmp_path: Path) -> None:
    write_arrays(tmp_path / "new" / "a.h5", ARRAYS, {"made from": ["größe", 1, None]})
    opened = open_arrays(tmp_path / "new" / "a.h5")
    assert opened.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert type(opened[name]) is np.ndarray
        assert (opened[name].dtype, opened[name].shape) == (array.dtype, array.shape)
        assert opened[name].flags.aligned and opened[name].flags.c_contiguous
        assert np.array_equal(opened[name], array)
    assert read_attributes(tmp_path / "new" / "a.h5") == {"made from": ["größe", 1, None]}
    with h5py.File(tmp_path / "new" / "a.h5") as file:
        assert np.array_equal(file["a.b"][:], ARRAYS["a.b"])
    assert os.listdir(tmp_path / "new") == ["a.h5"]


def test_writing_to_an_opened_array_leaves_the_file_alone(tmp_path: Path) -> None:
    write_arrays(tmp_path / "a.h5", ARRAYS, {})
    open_arrays(tmp_path / "a.h5")["a"][:] = 7
    assert np.array_equal(open_arrays(tmp_path / "a.h5")["a"], ARRAYS["a"])


def test_released_pages_are_read_again_from_the_file(tmp_path: Path) -> None:
    small, large = np.arange(10), np.arange(5 * mmap.PAGESIZE)
    write_arrays(tmp_path / "a.h5", {"small": small, "large": large, "none": large[:0]}, {})
    opened = open_arrays(tmp_path / "a.h5")
    # What a process has written to its own copy of a page tells whether it still has that page.
    opened["large"][:], opened["small"][:] = -1, -1
    for array in (*opened.values(), large):
        release_pages(array)
    kept = np.flatnonzero(opened["large"] == -1)
    assert len(kept) < 2 * mmap.PAGESIZE and np.array_equal(np.delete(opened["large"], kept), np.delete(large, kept))
    assert (opened["small"] == -1).all() and np.array_equal(large, np.arange(len(large)))


def test_pages_that_were_written_to_are_read_again_from_the_file(tmp_path: Path) -> None:
    small, large = np.arange(10), np.arange(5 * mmap.PAGESIZE)
    write_arrays(tmp_path / "a.h5", {"small": small, "large": large}, {})
    opened = open_arrays(tmp_path / "a.h5")
    opened["large"][:], opened["small"][:] = -1, -1
    in_page = mmap.PAGESIZE // large.itemsize
    for array in (opened["large"], opened["small"], large):
        release_changes(array, np.array([2 * in_page, 0, 2 * in_page]))
    same = np.flatnonzero(opened["large"] == large)
    # The first page has the end of the other array, too.
    assert len(same) == in_page and same[0] <= 2 * in_page <= same[-1]
    assert (opened["small"] == -1).all() and np.array_equal(large, np.arange(len(large)))


def test_no_arrays_and_long_attributes(tmp_path: Path) -> None:
    long = {"inputs": [["x" * 100, number] for number in range(20000)]}
    write_arrays(tmp_path / "a.h5", {}, long)
    assert open_arrays(tmp_path / "a.h5") == {}
    assert read_attributes(tmp_path / "a.h5") == long


def test_an_opened_file_may_be_replaced(tmp_path: Path) -> None:
    write_arrays(tmp_path / "a.h5", ARRAYS, {})
    opened = open_arrays(tmp_path / "a.h5")
    (tmp_path / ".a.h5.mpitune-part").write_bytes(b"left behind" * 100000)
    write_arrays(tmp_path / "a.h5", {"a": np.zeros(5)}, {})
    assert np.array_equal(opened["a"], ARRAYS["a"])
    assert open_arrays(tmp_path / "a.h5")["a"].tolist() == [0.0] * 5
    assert os.listdir(tmp_path) == ["a.h5"]


@pytest.mark.parametrize("step", ["arrays._try_space", "arrays._lay_out", "atomic._fsync"])
def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    write_arrays(tmp_path / "a.h5", {"a": np.zeros(5)}, {})

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(f"mpitune.array_files.{step}", full)
    with pytest.raises(MachineError, match=r"a\.h5: cannot be written: No space left on device"):
        write_arrays(tmp_path / "a.h5", {"a": np.zeros(5)}, {})
    assert os.listdir(tmp_path) == ["a.h5"]
    assert open_arrays(tmp_path / "a.h5")["a"].tolist() == [0.0] * 5


def test_a_file_larger_than_may_be_made(tmp_path: Path) -> None:
    huge = np.lib.stride_tricks.as_strided(np.zeros(1, dtype=np.uint8), (2**62,), (0,))
    with pytest.raises(MachineError, match="cannot be written"):
        write_arrays(tmp_path / "a.h5", {"a": huge}, {})
    assert os.listdir(tmp_path) == []


def test_missing_and_damaged_files(tmp_path: Path) -> None:
    write_arrays(tmp_path / "a.h5", ARRAYS, {})
    content = (tmp_path / "a.h5").read_bytes()
    (tmp_path / "cut.h5").write_bytes(content[:-1000])
    (tmp_path / "text.h5").write_text("text")
    (tmp_path / "empty.h5").write_text("")
    (tmp_path / "list.h5").write_bytes(content.replace(b"SNOD", b"NODS"))
    for name in ("cut", "text", "empty", "missing", "list"):
        assert name == "list" or read_attributes(tmp_path / f"{name}.h5") is None
        with pytest.raises(DataError, match=rf"{name}\.h5: found a damaged or missing store"):
            open_arrays(tmp_path / f"{name}.h5")


def test_every_flipped_bit_is_found(tmp_path: Path) -> None:
    write_arrays(tmp_path / "a.h5", ARRAYS, {"made from": 1})
    content = (tmp_path / "a.h5").read_bytes()
    for bit in np.random.default_rng(1).integers(8 * len(content), size=300).tolist():
        (tmp_path / "b.h5").write_bytes(flipped(content, bit))
        with pytest.raises(DataError, match=r"b\.h5: found a damaged or missing store"):
            open_arrays(tmp_path / "b.h5")


def flipped(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def chunked(file: h5py.File, name: str, secret: Path) -> None:
    file.create_dataset(name, data=np.zeros(6, np.uint8), chunks=(6,))


def strings(file: h5py.File, name: str, secret: Path) -> None:
    file.create_dataset(name, data=["text"], dtype=h5py.string_dtype())


@pytest.mark.parametrize("craft", [*CRAFTED, chunked, strings])
def test_only_bytes_of_the_file_itself_are_read(tmp_path: Path, craft: Craft) -> None:
    with h5py.File(tmp_path / "evil.h5", "w", userblock_size=USER_BLOCK) as file:
        file.attrs["version"], file.attrs["attributes"], file["b"] = arrays.VERSION, "{}", np.zeros(6)
        craft(file, "a", write_secret(tmp_path))
    write_user_block(tmp_path / "evil.h5")
    with pytest.raises(DataError, match="is a link|is stored in|is not stored in|numbers in one piece"):
        open_arrays(tmp_path / "evil.h5")


def test_files_of_other_versions(tmp_path: Path) -> None:
    write_arrays(tmp_path / "a.h5", ARRAYS, {"made from": 1})
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        file.attrs["version"] = arrays.VERSION - 1
    assert read_attributes(tmp_path / "a.h5") is None
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        file.attrs["version"] = arrays.VERSION + 1
    with pytest.raises(UsageError, match=r"a\.h5: made by a newer mpitune \(version 5, this one reads 4\): update"):
        read_attributes(tmp_path / "a.h5")
