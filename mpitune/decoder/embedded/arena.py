"""Memory for the arrays of one sentence, reused for the next one.

Memory fresh from the operating system is slow at first: each page is allocated and cleared at its first use, and is in
no cache. One large block may also be backed by large pages.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_LINE = 64
"""Bytes of a cache line: every array begins at a multiple of it."""


def aligned_empty(shape: int | tuple[int, ...], dtype: Any) -> np.ndarray:
    """As `numpy.empty`, from the beginning of a cache line: records whose size divides a line lie in one each."""
    size = math.prod(shape if isinstance(shape, tuple) else (shape,)) * np.dtype(dtype).itemsize
    block = np.empty(size + _LINE, dtype=np.uint8)
    begin = -block.ctypes.data % _LINE
    array: np.ndarray = block[begin : begin + size].view(dtype).reshape(shape)
    return array


class Arena:
    """Allocates arrays that are freed at once: all, or the latest."""

    def __init__(self) -> None:
        self._block = aligned_empty(1 << 22, np.uint8)
        self._used = 0

    def reset(self) -> None:
        """Free all arrays: later ones overwrite them."""
        if self._used > len(self._block):
            self._block = aligned_empty(self._used + self._used // 2, np.uint8)
        self._used = 0

    def mark(self) -> int:
        """The present state, for `release`."""
        return self._used

    def release(self, mark: int) -> None:
        """Free all arrays that were allocated since ``mark``."""
        self._used = mark

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> np.ndarray:
        """As `numpy.empty`."""
        size = math.prod(shape if isinstance(shape, tuple) else (shape,)) * np.dtype(dtype).itemsize
        begin = self._used
        self._used += -(-size // _LINE) * _LINE
        if self._used > len(self._block):
            return np.empty(shape, dtype=dtype)
        array: np.ndarray = self._block[begin : begin + size].view(dtype).reshape(shape)
        return array

    def full(self, shape: int | tuple[int, ...], value: Any, dtype: Any) -> np.ndarray:
        """As `numpy.full`."""
        array = self.empty(shape, dtype)
        array[...] = value
        return array
