"""Arrays on disk: one that grows until it is stored, and those of one computation that are too large for its memory.

The system pages in and out what does not fit into the memory.
"""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from mpitune.errors import MachineError
from mpitune.files import writing

_PIECE = 1 << 20
"""Elements that `DiskArray.distinct` sorts at a time."""


class DiskArray:
    """A vector or a matrix in a file without a name, which the system deletes when the process ends."""

    def __init__(self, folder: Path, dtype: type[np.generic] = np.int32, columns: int = 0) -> None:
        """``folder``: the folder of the file; ``columns``: those of a matrix, 0 for a vector.

        Raises MachineError if the folder is not writable.
        """
        self.dtype = np.dtype(dtype)
        self.size = 0
        """Number of elements."""
        self._columns = columns
        self._folder = folder
        with writing(self._folder, MachineError):
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (closed below)

    def __del__(self) -> None:
        # On a full disk, flushing the buffer fails.
        with suppress(OSError, AttributeError):
            self._file.close()

    def append(self, numbers: np.ndarray) -> None:
        """Append the elements, or rows, of ``numbers``. Raises MachineError if the disk is full."""
        with writing(self._folder, MachineError):
            self._file.write(np.ascontiguousarray(numbers, dtype=self.dtype).data)
            self._file.flush()
        self.size += numbers.size

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.size // self._columns, self._columns) if self._columns else (self.size,)

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def distinct(self) -> np.ndarray:
        """The distinct elements, ascending."""
        found, numbers = np.zeros(0, self.dtype), self.mapped().ravel()
        for first in range(0, self.size, _PIECE):
            found = np.union1d(found, numbers[first : first + _PIECE])
        return found

    def mapped(self) -> np.ndarray:
        """All elements so far, memory-mapped."""
        if self.size == 0:
            return np.zeros(self.shape, self.dtype)
        return np.memmap(self._file, self.dtype, mode="r", shape=self.shape).view(np.ndarray)

    def copy_to(self, file: IO[bytes]) -> None:
        """Write all numbers to ``file``, in pieces of bounded size."""
        self._file.seek(0)
        shutil.copyfileobj(self._file, file)


_SHARE = 16
"""Arrays of this part of the memory or less are held in it: that many are in use at a time, at most."""


class Scratch:
    """Makes arrays, large ones in files without a name, which the system deletes however the process ends."""

    def __init__(self, folder: Path, memory: int) -> None:
        """``folder``: where the files are; ``memory``: the bytes that the arrays may take, about."""
        self._folder = folder
        self._largest = memory // _SHARE
        self._mapped = weakref.WeakSet[mmap.mmap]()

    def empty(self, size: int, dtype: type[np.generic]) -> np.ndarray:
        """A vector of ``size`` elements, of any content. Raises MachineError if the disk has no room for it."""
        length = size * np.dtype(dtype).itemsize
        if length <= self._largest:
            return np.empty(size, dtype)
        with writing(self._folder, MachineError), tempfile.TemporaryFile(dir=self._folder) as file:
            # A page that the disk has no room for when it is written to would end the process.
            os.posix_fallocate(file.fileno(), 0, length)
            mapped = mmap.mmap(file.fileno(), length)
        self._mapped.add(mapped)
        array: np.ndarray[Any, Any] = np.ndarray(size, dtype, buffer=mapped)
        return array

    def release(self) -> None:
        """Take the pages of arrays in files out of this process; the next access maps them again."""
        for mapped in self._mapped:
            mapped.madvise(mmap.MADV_DONTNEED)
