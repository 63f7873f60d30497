"""Arrays on disk: HDF5 files that are written once, atomically, and opened memory-mapped.

Every dataset is stored contiguously, so that an opened array is a view of the mapped file: opening reads no data, and
the processes of one machine share the pages.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import h5py
import numpy as np

from mpitune.array_files.atomic import atomic_replace
from mpitune.array_files.disk_array import DiskArray
from mpitune.errors import DataError, MachineError, UsageError

Stored = np.ndarray | DiskArray
"""An array to be written."""
A = TypeVar("A", bound=Stored)
VERSION = 3
"""Format version, incremented whenever the meaning of an array changes; files of older versions are rebuilt."""
_FRAME = 1 << 16
"""Upper bound of the bytes that HDF5 needs besides the arrays and the attributes."""
_DAMAGE = (OSError, KeyError, ValueError, TypeError, RuntimeError)
"""Exceptions of h5py for files that are missing, damaged or not HDF5."""


def write_arrays(path: Path, arrays: Mapping[str, Stored], attributes: Mapping[str, Any]) -> None:
    """Write ``arrays`` and ``attributes`` (JSON values) to ``path`` atomically.

    Raises MachineError if the file cannot be written (disk full).
    """
    text = json.dumps(attributes)
    try:
        with atomic_replace(path) as aside:
            _try_space(aside, _FRAME + len(text), sum(array.nbytes for array in arrays.values()))
            places = _lay_out(aside, arrays, text)
            with open(aside, "r+b") as file:
                for name, offset in places.items():
                    file.seek(offset)
                    array = arrays[name]
                    if isinstance(array, DiskArray):
                        array.copy_to(file)
                    else:
                        file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    except OSError as error:
        raise MachineError(f"{path}: cannot be written: {error.strerror or error}") from error


def _try_space(path: Path, frame: int, data: int) -> None:
    """Raise OSError unless a file of ``frame`` + ``data`` bytes is allowed and the first ``frame`` fit on the disk.

    On a full disk the HDF5 library crashes. It therefore writes only the frame, which fits after this check; the arrays
    are written by `write_arrays` itself.
    """
    with open(path, "wb") as file:
        file.write(bytes(frame))
        file.flush()
        os.fsync(file.fileno())
        file.truncate(frame + data)


def _lay_out(path: Path, arrays: Mapping[str, Stored], attributes: str) -> dict[str, int]:
    """Create an HDF5 file with space for ``arrays``; returns the offset in bytes of each that is not empty."""
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    with h5py.File(path, "w", alignment_threshold=1, alignment_interval=64) as file:
        file.attrs["version"] = VERSION
        file.attrs["attributes"] = attributes
        datasets = {
            name: file.create_dataset(name, shape=array.shape, dtype=array.dtype, dcpl=properties)
            for name, array in arrays.items()
        }
        return {name: dataset.id.get_offset() for name, dataset in datasets.items() if dataset.size}


@contextmanager
def write_lock(folder: Path) -> Iterator[None]:
    """Lock ``folder`` for writing, after waiting for other holders: runs may share a store. Creates the folder.

    Raises UsageError if the folder is not writable.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = open(folder / "lock", "a", encoding="utf-8")  # noqa: SIM115 (closed below)
    except OSError as error:
        raise UsageError(f"{folder}: cannot write to the store: {error.strerror}") from None
    with lock:
        # Some network file systems have no locks: runs that share a store there must not build it at the same time.
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def read_attributes(path: Path) -> dict[str, Any] | None:
    """The attributes of ``path``; None if the file is missing, damaged or of an older version.

    Raises UsageError for a file of a newer version, which must not be overwritten.
    """
    try:
        with h5py.File(path, "r") as file:
            version = int(file.attrs["version"])
            if version > VERSION:
                found = f"made by a newer mpitune (version {version}, this one reads {VERSION})"
                raise UsageError(f"{path}: {found}: update mpitune or name another run.store")
            attributes: dict[str, Any] = json.loads(file.attrs["attributes"])
            return attributes if version == VERSION else None
    except _DAMAGE:
        return None


def open_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of ``path``, memory-mapped copy-on-write: a process that writes to a page gets a private copy of it.

    Raises DataError if the file is missing or damaged.
    """
    try:
        with h5py.File(path, "r") as file:
            found = {name: file[name] for name in file}
            places = {name: (data.id.get_offset(), data.dtype, data.shape) for name, data in found.items()}
        mapped = np.memmap(path, dtype=np.uint8, mode="c")
        return {name: _mapped(mapped, *place) for name, place in places.items()}
    except _DAMAGE as error:
        expected = "expected one made by prepare: remove it to have it built again"
        raise DataError(f"{path}: found a damaged or missing store ({error}), {expected}") from None


def _mapped(file: np.ndarray, offset: int | None, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
    if offset is None:
        return np.zeros(shape, dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    # A plain ndarray over the mapped pages: kernels are compiled once for mapped and built arrays alike.
    array: np.ndarray = np.asarray(file[offset : offset + size]).view(np.ndarray).view(dtype).reshape(shape)
    return array


def add_prefix(prefix: str, arrays: Mapping[str, A]) -> dict[str, A]:
    """``arrays``, each under its name with ``prefix`` and a dot before it."""
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def with_prefix(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """The arrays that `add_prefix` put under ``prefix``, by their names without it."""
    return {name.removeprefix(f"{prefix}."): a for name, a in arrays.items() if name.startswith(f"{prefix}.")}
