"""Arrays on disk: HDF5 files that are written once, atomically, and opened memory-mapped.

Every dataset is stored contiguously, so that an opened array is a view of the mapped file, and the processes of one
machine share the pages. A digest of the file is checked before HDF5 reads it; see `checked` for opening it without.

A file begins with a user block, which h5py and h5dump skip. It holds one line of text with the digest of all following
bytes, the structures of HDF5 included: damage is found before any other library reads the file.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import h5py
import numpy as np

from mpitune.array_files.atomic import atomic_replace
from mpitune.array_files.disk_array import DiskArray
from mpitune.errors import DataError, MachineError, UsageError
from mpitune.files import exists, open_regular, writing

Stored = np.ndarray | DiskArray
"""An array to be written."""
A = TypeVar("A", bound=Stored)
VERSION = 4
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
    with writing(path, MachineError), atomic_replace(path) as aside:
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
        write_user_block(aside)


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
    # `atomic_replace` has locked the file.
    options = {"userblock_size": USER_BLOCK, "alignment_threshold": 1, "alignment_interval": 64, "locking": False}
    with h5py.File(path, "w", **options) as file:
        file.attrs["version"] = VERSION
        file.attrs["attributes"] = attributes
        datasets = {
            name: file.create_dataset(name, shape=array.shape, dtype=array.dtype, dcpl=properties)
            for name, array in arrays.items()
        }
        return {name: dataset.id.get_offset() for name, dataset in datasets.items() if dataset.size}


def read_attributes(path: Path) -> dict[str, Any] | None:
    """The attributes of ``path``; None if the file is missing, damaged or of an older version.

    The digest is not checked. Raises UsageError for a file of a newer version, which must not be overwritten.
    """
    try:
        with open_regular(path) as raw, h5py.File(raw, "r") as file:
            attributes: dict[str, Any] = json.loads(file.attrs["attributes"])
            return attributes if _version(path, file) == VERSION else None
    except (DataError, *_DAMAGE):
        return None


def open_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of ``path``, memory-mapped copy-on-write: a process that writes to a page gets a private copy of it.

    Raises DataError if the file is missing, damaged (its digest is checked) or of an older version, UsageError if it is
    of a newer one.
    """
    return map_arrays(path, check_digest=True)


def map_arrays(path: Path, *, check_digest: bool) -> dict[str, np.ndarray]:
    """`open_arrays`, with or without the check of the digest."""
    if not exists(path):
        raise damaged(path, FileNotFoundError("no such file"))
    try:
        with open_regular(path) as raw:
            mapped = np.memmap(raw, dtype=np.uint8, mode="c")
            matches = matches_digest(raw) if check_digest else True
            if matches is False:
                raise ValueError("its bytes do not match its digest")
            with h5py.File(raw, "r") as file:
                if _version(path, file) != VERSION:
                    raise ValueError("made by an older mpitune")
                if matches is None:
                    raise ValueError("it has no digest")
                return {name: _mapped(mapped, dataset) for name, dataset in local_datasets(file).items()}
    except _DAMAGE as error:
        raise damaged(path, error) from None


def damaged(path: Path, error: Exception) -> DataError:
    """The error for an array file that is missing or damaged."""
    expected = "expected one made by prepare: remove it to have it built again"
    return DataError(f"{path}: found a damaged or missing store ({error}), {expected}")


def _version(path: Path, file: h5py.File) -> int:
    version = int(file.attrs["version"])
    if version > VERSION:
        found = f"made by a newer mpitune (version {version}, this one reads {VERSION})"
        raise UsageError(f"{path}: {found}: update mpitune or name another run.store")
    return version


def local_datasets(file: h5py.File) -> dict[str, h5py.Dataset]:
    """The datasets of an HDF5 ``file`` by path.

    Raises ValueError for links, and for datasets whose bytes are not in the file as they are: external storage, which
    may name any file of the reader, virtual and compressed datasets, and datasets without storage.
    """
    links: list[tuple[str, Any]] = []
    file.visititems_links(lambda name, link: links.append((name, link)))
    if others := [name for name, link in links if not isinstance(link, h5py.HardLink)]:
        raise ValueError(f"{others[0]} is a link")
    found = {name: node for name, _ in links if isinstance(node := file[name], h5py.Dataset)}
    for dataset in found.values():
        _check_storage(dataset)
    return found


def _check_storage(dataset: h5py.Dataset) -> None:
    plan = dataset.id.get_create_plist()
    if plan.get_layout() == h5py.h5d.VIRTUAL or plan.get_external_count() > 0:
        raise ValueError(f"{dataset.name} is stored in other files")
    if plan.get_nfilters() > 0 or dataset.id.get_storage_size() < dataset.nbytes:
        raise ValueError(f"{dataset.name} is not stored in full")


def _mapped(file: np.ndarray, dataset: h5py.Dataset) -> np.ndarray:
    dtype, shape, offset = dataset.dtype, dataset.shape, dataset.id.get_offset()
    if dataset.size == 0:
        return np.zeros(shape, dtype)
    if offset is None or dtype.hasobject:
        raise ValueError(f"{dataset.name} is not an array of numbers in one piece")
    # A plain ndarray over the mapped pages: kernels are compiled once for mapped and built arrays alike.
    array: np.ndarray = np.asarray(file[offset : offset + dataset.nbytes]).view(np.ndarray).view(dtype).reshape(shape)
    return array


def release_pages(array: np.ndarray) -> None:
    """Take the pages of an array of `map_arrays` out of this process, which has not written to them.

    The next access maps them again, usually from the system's cache. Arrays that are not mapped are left alone.
    """
    owner, _, first, end = _whole_pages(array)
    if owner is not None and first < end:
        owner.madvise(mmap.MADV_DONTNEED, first * mmap.PAGESIZE, (end - first) * mmap.PAGESIZE)


def release_changes(array: np.ndarray, places: np.ndarray) -> None:
    """Take the pages of a mapped array that have ``places`` (int, elements) out of this process.

    They have the content of the file again, and are shared with other processes again. Arrays that are not mapped, and
    pages that have bytes of other arrays, are left alone.
    """
    owner, begin, first, end = _whole_pages(array)
    if owner is not None:
        pages = np.unique((begin + array.itemsize * places) // mmap.PAGESIZE)
        for page in pages[(pages >= first) & (pages < end)].tolist():
            owner.madvise(mmap.MADV_DONTNEED, page * mmap.PAGESIZE, mmap.PAGESIZE)


def _whole_pages(array: np.ndarray) -> tuple[mmap.mmap | None, int, int, int]:
    """The mapping of ``array`` or None, the byte there at which it begins, its first whole page, and their end."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if not isinstance(owner, mmap.mmap):
        return None, 0, 0, 0
    begin = array.ctypes.data - np.frombuffer(owner, dtype=np.uint8).ctypes.data
    # The pages at its ends have bytes of other arrays.
    return owner, begin, -(-begin // mmap.PAGESIZE), (begin + array.nbytes) // mmap.PAGESIZE


def add_prefix(prefix: str, arrays: Mapping[str, A]) -> dict[str, A]:
    """``arrays``, each under its name with ``prefix`` and a dot before it."""
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def with_prefix(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """The arrays that `add_prefix` put under ``prefix``, by their names without it."""
    return {name.removeprefix(f"{prefix}."): a for name, a in arrays.items() if name.startswith(f"{prefix}.")}


USER_BLOCK = 512
"""Size in bytes of the user block: HDF5's minimum."""
_LINE = b"mpitune: HDF5 data follow, digest "
_PIECE = 1 << 24
"""Bytes that a thread hashes one after the other."""
_READ = 1 << 16
"""Bytes read at a time: mapped pages would count as memory of the process."""


def matches_digest(file: BinaryIO) -> bool | None:
    """True if the bytes of a ``file`` match the digest in its user block; None if it has no digest."""
    block = os.pread(file.fileno(), USER_BLOCK, 0)
    return block == _user_block(file) if block.startswith(_LINE) else None


def write_user_block(path: Path) -> None:
    """Write the digest of the other bytes of ``path`` to its user block."""
    with open(path, "r+b") as file:
        file.write(_user_block(file))


def _user_block(file: BinaryIO) -> bytes:
    return _LINE + _digest(file).encode().ljust(USER_BLOCK - len(_LINE), b"\n")


def _digest(file: BinaryIO) -> str:
    """blake2b of the digests of pieces, which threads compute in parallel (hashlib releases the lock)."""
    size = os.fstat(file.fileno()).st_size

    def piece(first: int) -> bytes:
        hashed = hashlib.blake2b()
        end = min(first + _PIECE, size)
        for place in range(first, end, _READ):
            hashed.update(os.pread(file.fileno(), min(_READ, end - place), place))
        return hashed.digest()

    with ThreadPoolExecutor() as threads:
        pieces = threads.map(piece, range(USER_BLOCK, size, _PIECE))
        return hashlib.blake2b(b"".join(pieces)).hexdigest()
