"""Arrays on disk: NumPy's .npz files, not compressed, written once, atomically, and opened memory-mapped.

A file is a ZIP archive: the manifest ``mpitune.json``, and a ``.npy`` file for each array. `numpy.load` reads it. It
cannot refer to another file, and one rename replaces it. Each array begins at a multiple of 64 bytes and is a view of
the mapped file, whose pages the processes of one machine share. The comment at the end of the archive is a digest of
all bytes before it: damage is found before anything else is read; see `cache` for opening without it.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import mmap
import os
import struct
import tokenize
import zipfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, BinaryIO, TypeVar

import numpy as np
from numpy.lib import format as npy

from mpitune.array_files.atomic import atomic_replace
from mpitune.array_files.disk_array import DiskArray
from mpitune.errors import DataError, MachineError, UsageError
from mpitune.files import exists, open_regular, writing

Stored = np.ndarray | DiskArray
"""An array to be written."""
A = TypeVar("A", bound=Stored)
VERSION = 6
"""Format version, incremented whenever the meaning of an array changes; files of older versions are made again."""
_DAMAGE = (
    *(OSError, LookupError, ValueError, TypeError, RuntimeError, SyntaxError),
    *(struct.error, tokenize.TokenError, zipfile.BadZipFile),
)
"""Exceptions of `zipfile`, `json` and NumPy for files that are damaged or no array files."""
_MANIFEST = "mpitune.json"
_ALIGNMENT = 64
_HEADER = 30 + 20 + 4
"""Bytes before the name, padding and content of a member: its header, the field of its sizes, that of the padding."""
_DIGEST = 2 * hashlib.blake2b().digest_size
_PIECE = 1 << 24
"""Bytes that a thread hashes one after the other."""
_READ = 1 << 16
"""Bytes read at a time: mapped pages would count as memory of the process."""


def write_arrays(path: Path, arrays: Mapping[str, Stored], manifest: Mapping[str, Any]) -> None:
    """Write ``arrays`` and the ``manifest`` (JSON values) to ``path`` atomically.

    Raises MachineError if the file cannot be written (disk full).
    """
    with writing(path, MachineError), atomic_replace(path) as aside, open(aside, "w+b") as file:
        with zipfile.ZipFile(file, "w") as archive:
            with _member(archive, _MANIFEST, file) as member:
                member.write(json.dumps({"version": VERSION, **manifest}).encode())
            for name, array in arrays.items():
                with _member(archive, f"{name}.npy", file) as member:
                    _write_npy(member, array)
            archive.comment = bytes(_DIGEST)
        file.flush()
        digest = _digest(file)
        file.seek(-_DIGEST, os.SEEK_END)
        file.write(digest)


def _member(archive: zipfile.ZipFile, name: str, file: BinaryIO) -> IO[bytes]:
    """A new file in ``archive``, whose content begins at a multiple of `_ALIGNMENT` bytes of ``file``."""
    member = zipfile.ZipInfo(name)
    padding = -(file.tell() + _HEADER + len(name)) % _ALIGNMENT
    member.extra = struct.pack("<HH", 0xD935, padding) + bytes(padding)
    return archive.open(member, "w", force_zip64=True)


def _write_npy(file: IO[bytes], array: Stored) -> None:
    header = {"descr": npy.dtype_to_descr(array.dtype), "fortran_order": False, "shape": array.shape}
    npy.write_array_header_1_0(file, header)
    if isinstance(array, DiskArray):
        array.copy_to(file)
    else:
        file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of ``path``; empty if the file is missing, damaged or of an older version.

    The digest is not checked. Raises UsageError for a file of a newer version, which must not be overwritten.
    """
    try:
        with open_regular(path) as file:
            return _manifest(path, _members(file))
    except (DataError, *_DAMAGE):
        return {}


def open_arrays(path: Path, *, check_digest: bool = True) -> dict[str, np.ndarray]:
    """The arrays of ``path``, memory-mapped copy-on-write: a process that writes to a page gets a private copy of it.

    Raises DataError if the file is missing, damaged (its digest is checked) or of an older version, UsageError if it is
    of a newer one.
    """
    if not exists(path):
        raise damaged(path, FileNotFoundError("no such file"))
    try:
        with open_regular(path) as file:
            if check_digest and os.pread(file.fileno(), _DIGEST, _end(file)) != _digest(file):
                raise ValueError("its bytes do not match its digest")
            members = _members(file)
            _manifest(path, members)
            return {name.removesuffix(".npy"): _array(name, bytes_) for name, bytes_ in members.items()}
    except _DAMAGE as error:
        raise damaged(path, error) from None


def damaged(path: Path, error: Exception) -> DataError:
    """The error for an array file that is missing or damaged."""
    expected = "expected one made by prepare: remove it to have it built again"
    return DataError(f"{path}: found a damaged or missing store ({error}), {expected}")


def _members(file: BinaryIO) -> dict[str, np.ndarray]:
    """uint8 each: the mapped contents of the files in an archive, by name."""
    mapped = np.memmap(file, dtype=np.uint8, mode="c").view(np.ndarray)
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
    return {member.filename: _content(mapped, member) for member in members}


def _content(mapped: np.ndarray, member: zipfile.ZipInfo) -> np.ndarray:
    if member.compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{member.filename} is compressed")
    begin = member.header_offset + _HEADER + len(member.filename)
    begin += -begin % _ALIGNMENT
    content: np.ndarray = mapped[begin : begin + member.file_size]
    if len(content) != member.file_size:
        raise ValueError(f"{member.filename} is not there in full")
    return content


def _manifest(path: Path, members: dict[str, np.ndarray]) -> dict[str, Any]:
    """The manifest, which is taken out of ``members``. Raises ValueError for one of an older version."""
    manifest: dict[str, Any] = json.loads(members.pop(_MANIFEST).tobytes())
    version = int(manifest["version"])
    if version > VERSION:
        found = f"made by a newer mpitune (version {version}, this one reads {VERSION})"
        raise UsageError(f"{path}: {found}: update mpitune, or name another folder")
    if version < VERSION:
        raise ValueError("made by an older mpitune")
    return manifest


def _array(name: str, content: np.ndarray) -> np.ndarray:
    """The array of a ``.npy`` file; raises ValueError for one of objects, and for any other file."""
    header = io.BytesIO(content[: 1 << 14].tobytes())
    if not name.endswith(".npy") or npy.read_magic(header) != (1, 0):
        raise ValueError(f"{name} is not an array")
    shape, fortran_order, dtype = npy.read_array_header_1_0(header)
    content = content[header.tell() :]
    if dtype.hasobject or fortran_order or len(content) != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{name} is not an array of numbers in one piece")
    # A plain ndarray over the mapped pages: kernels are compiled once for mapped and built arrays alike.
    array: np.ndarray = content.view(dtype).reshape(shape) if len(content) else np.zeros(shape, dtype)
    if not array.flags.aligned:
        raise ValueError(f"{name} is not aligned")
    return array


def _end(file: BinaryIO) -> int:
    """The place of the digest in ``file``."""
    return max(os.fstat(file.fileno()).st_size - _DIGEST, 0)


def _digest(file: BinaryIO) -> bytes:
    """blake2b of the digests of pieces, which threads compute in parallel (hashlib releases the lock)."""
    size = _end(file)

    def piece(first: int) -> bytes:
        hashed = hashlib.blake2b()
        end = min(first + _PIECE, size)
        for place in range(first, end, _READ):
            hashed.update(os.pread(file.fileno(), min(_READ, end - place), place))
        return hashed.digest()

    with ThreadPoolExecutor() as threads:
        pieces = threads.map(piece, range(0, size, _PIECE))
        return hashlib.blake2b(b"".join(pieces)).hexdigest().encode()


def release_pages(array: np.ndarray) -> None:
    """Take the pages of an array of `open_arrays` out of this process, which has not written to them.

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
