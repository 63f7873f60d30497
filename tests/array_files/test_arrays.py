"""Array files: what is written comes back, whole or not at all."""

from __future__ import annotations

import errno
import io
import mmap
import os
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from support.small_disk import largest_file

from mpitune.array_files import arrays
from mpitune.array_files.arrays import open_arrays, read_manifest, release_changes, release_pages, write_arrays
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
    write_arrays(tmp_path / "new" / "a.npz", ARRAYS, {"made from": ["größe", 1, None]})
    opened = open_arrays(tmp_path / "new" / "a.npz")
    assert opened.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert type(opened[name]) is np.ndarray
        assert (opened[name].dtype, opened[name].shape) == (array.dtype, array.shape)
        assert opened[name].flags.aligned and opened[name].flags.c_contiguous
        assert np.array_equal(opened[name], array)
    assert read_manifest(tmp_path / "new" / "a.npz") == {"version": arrays.VERSION, "made from": ["größe", 1, None]}
    with np.load(tmp_path / "new" / "a.npz", allow_pickle=False) as file:
        assert all(np.array_equal(file[name], array) for name, array in ARRAYS.items())
    assert os.listdir(tmp_path / "new") == ["a.npz"]


def test_writing_to_an_opened_array_leaves_the_file_alone(tmp_path: Path) -> None:
    write_arrays(tmp_path / "a.npz", ARRAYS, {})
    open_arrays(tmp_path / "a.npz")["a"][:] = 7
    assert np.array_equal(open_arrays(tmp_path / "a.npz")["a"], ARRAYS["a"])


def test_released_pages_are_read_again_from_the_file(tmp_path: Path) -> None:
    small, large = np.arange(10), np.arange(5 * mmap.PAGESIZE)
    write_arrays(tmp_path / "a.npz", {"small": small, "large": large, "none": large[:0]}, {})
    opened = open_arrays(tmp_path / "a.npz")
    # What a process has written to its own copy of a page tells whether it still has that page.
    opened["large"][:], opened["small"][:] = -1, -1
    for array in (*opened.values(), large):
        release_pages(array)
    kept = np.flatnonzero(opened["large"] == -1)
    assert len(kept) < 2 * mmap.PAGESIZE and np.array_equal(np.delete(opened["large"], kept), np.delete(large, kept))
    assert (opened["small"] == -1).all() and np.array_equal(large, np.arange(len(large)))


def test_pages_that_were_written_to_are_read_again_from_the_file(tmp_path: Path) -> None:
    small, large = np.arange(10), np.arange(5 * mmap.PAGESIZE)
    write_arrays(tmp_path / "a.npz", {"small": small, "large": large}, {})
    opened = open_arrays(tmp_path / "a.npz")
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
    write_arrays(tmp_path / "a.npz", {}, long)
    assert open_arrays(tmp_path / "a.npz") == {}
    assert read_manifest(tmp_path / "a.npz") == {"version": arrays.VERSION, **long}


def test_an_opened_file_may_be_replaced(tmp_path: Path) -> None:
    write_arrays(tmp_path / "a.npz", ARRAYS, {})
    opened = open_arrays(tmp_path / "a.npz")
    (tmp_path / ".a.npz.mpitune-part").write_bytes(b"left behind" * 100000)
    write_arrays(tmp_path / "a.npz", {"a": np.zeros(5)}, {})
    assert np.array_equal(opened["a"], ARRAYS["a"])
    assert open_arrays(tmp_path / "a.npz")["a"].tolist() == [0.0] * 5
    assert os.listdir(tmp_path) == ["a.npz"]


@pytest.mark.parametrize("step", ["arrays._member", "arrays._write_npy", "arrays._digest", "atomic._fsync"])
def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    write_arrays(tmp_path / "a.npz", {"a": np.zeros(5)}, {})

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(f"mpitune.array_files.{step}", full)
        with pytest.raises(MachineError, match=r"a\.npz: cannot be written: No space left on device"):
            write_arrays(tmp_path / "a.npz", {"a": np.zeros(5)}, {})
    assert os.listdir(tmp_path) == ["a.npz"]
    assert open_arrays(tmp_path / "a.npz")["a"].tolist() == [0.0] * 5


@pytest.mark.parametrize("size", [0, 50, 1_000, 9_000, 100_000])
def test_a_disk_that_is_full_after_so_many_bytes(tmp_path: Path, size: int) -> None:
    with pytest.raises(MachineError, match=r"a\.npz: cannot be written: File too large"), largest_file(size):
        write_arrays(tmp_path / "a.npz", ARRAYS | {"large": np.zeros(20_000)}, {"made from": 1})
    assert os.listdir(tmp_path) == []


def test_missing_and_damaged_files(tmp_path: Path) -> None:
    write_arrays(tmp_path / "a.npz", ARRAYS, {})
    content = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(content[:-1000])
    (tmp_path / "text.npz").write_text("text")
    (tmp_path / "empty.npz").write_text("")
    for name in ("cut", "text", "empty", "missing"):
        assert read_manifest(tmp_path / f"{name}.npz") == {}
        for check_digest in (True, False):
            with pytest.raises(DataError, match=rf"{name}\.npz: found a damaged or missing store"):
                open_arrays(tmp_path / f"{name}.npz", check_digest=check_digest)


def test_what_is_damaged_never_fails_in_another_way(tmp_path: Path) -> None:
    """Even where no digest tells, for example because somebody has written it anew."""
    path = tmp_path / "a.npz"
    write_arrays(path, ARRAYS, {"made from": 1})
    content = path.read_bytes()
    for bit in np.random.default_rng(2).integers(8 * len(content), size=1000).tolist():
        path.write_bytes(flipped(content, bit))
        with suppress(DataError, UsageError):
            open_arrays(path, check_digest=False)
        with suppress(UsageError):
            read_manifest(path)


def test_every_flipped_bit_is_found(tmp_path: Path) -> None:
    write_arrays(tmp_path / "a.npz", ARRAYS, {"made from": 1})
    content = (tmp_path / "a.npz").read_bytes()
    for bit in np.random.default_rng(1).integers(8 * len(content), size=300).tolist():
        (tmp_path / "b.npz").write_bytes(flipped(content, bit))
        with pytest.raises(DataError, match=r"b\.npz: found a damaged or missing store"):
            open_arrays(tmp_path / "b.npz")


def flipped(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


ODD = b"{'descr': '<i8', 'fortran_order': False, 'shape': (9,)} \n"
"""A header after which eight-byte numbers begin at an odd place."""
CRAFTED = {
    "is not an array of numbers": ("a.npy", npy(np.array([{}], dtype=object))),
    "is not an array of numbers in one": ("a.npy", npy(np.arange(9))[:-8]),
    "is not an array of numbers in one piece": ("a.npy", npy(np.ones((2, 3), order="F"))),
    "notes.txt is not an array": ("notes.txt", npy(np.arange(9))),
    "a.npy is not an array": ("a.npy", npy(np.arange(9)).replace(b"Y\1", b"Y\2")),
    "a.npy is not aligned": ("a.npy", b"\x93NUMPY\1\0" + bytes([len(ODD), 0]) + ODD + bytes(72)),
    "reading magic string": ("a.npy", b"text"),
}


@pytest.mark.parametrize("told", list(CRAFTED))
def test_nothing_but_arrays_of_numbers_is_read(tmp_path: Path, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, content = CRAFTED[told]
    monkeypatch.setattr(arrays, "_write_npy", lambda member, array: member.write(content))
    member = arrays._member
    monkeypatch.setattr(arrays, "_member", lambda to, given, file: member(to, given.replace("a.npy", name), file))
    write_arrays(tmp_path / "evil.npz", {"a": np.zeros(1)}, {})
    with pytest.raises(DataError, match=told):
        open_arrays(tmp_path / "evil.npz")


def test_compressed_files_are_refused(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", a=np.zeros(100))
    with pytest.raises(DataError, match=r"a\.npy is compressed"):
        open_arrays(tmp_path / "a.npz", check_digest=False)


def test_files_of_other_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, version = tmp_path / "a.npz", arrays.VERSION
    for other in (version - 1, version + 1):
        monkeypatch.setattr(arrays, "VERSION", other)
        write_arrays(path, ARRAYS, {"made from": 1})
        monkeypatch.setattr(arrays, "VERSION", version)
        if other < version:
            assert read_manifest(path) == {}
            with pytest.raises(DataError, match="made by an older mpitune"):
                open_arrays(path)
    for read in (read_manifest, open_arrays):
        told = rf"a\.npz: made by a newer mpitune \(version {version + 1}, this one reads {version}\): update"
        with pytest.raises(UsageError, match=told):
            read(path)
