"""Memory for the arrays of one sentence, which the next sentence uses again.

Memory fresh from the operating system is slow at first: each page is given and cleared when it is touched, and is in no
cache. One large block is also what the system may back with large pages.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_LINE = 64
"""Arrays begin at a multiple of so many bytes from the first, cache lines of their own."""


class Arena:
    """Gives out arrays, all of which are taken back at once."""

    def __init__(self) -> None:
        self._block = np.empty(1 << 22, dtype=np.uint8)
        self._used = 0

    def reset(self) -> None:
        """Use the memory of all arrays given out again: whoever still has one sees it change."""
        if self._used > len(self._block):
            self._block = np.empty(self._used + self._used // 2, dtype=np.uint8)
        self._used = 0

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
