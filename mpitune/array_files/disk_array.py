"""An array that is made piece by piece and may be larger than the memory: until it is stored, it waits on disk."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import numpy as np

from mpitune.errors import MachineError


class DiskArray:
    """int32 numbers in a file without a name, which goes with the process, however that ends."""

    dtype = np.dtype(np.int32)

    def __init__(self, folder: Path) -> None:
        """``folder``: on whose disk they wait. Raises MachineError where nothing can be written there."""
        self.size = 0
        self._folder = folder
        with self._writing():
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (closed below)

    def __del__(self) -> None:
        # On a full disk, what is still to be written cannot be.
        with suppress(OSError, AttributeError):
            self._file.close()

    def append(self, numbers: np.ndarray) -> None:
        """Add int32 ``numbers`` at the end. Raises MachineError where the disk is full."""
        with self._writing():
            self._file.write(np.ascontiguousarray(numbers, dtype=self.dtype).data)
            self._file.flush()
        self.size += len(numbers)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise MachineError(f"{self._folder}: cannot be written to: {error.strerror}") from error

    @property
    def shape(self) -> tuple[int]:
        return (self.size,)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def copy_to(self, file: BinaryIO) -> None:
        """Write all numbers to ``file``, a bounded number of them at a time."""
        self._file.seek(0)
        shutil.copyfileobj(self._file, file)
