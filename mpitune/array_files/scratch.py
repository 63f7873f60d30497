"""Arrays of one computation; those that are too large for its memory are files, which the system pages in and out."""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from pathlib import Path
from typing import Any

import numpy as np

from mpitune.errors import MachineError
from mpitune.files import writing

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
